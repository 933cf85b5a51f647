/* The grammar of .te: LALR(1) without a conflict.
 *
 * Actions only call constructors (ast.c).  After a mistake reading goes on at
 * the next ';', so that one run reports several.
 */
%require "3.8"
%code top {
#include "config.h"
}
%code requires {
#include "frontend/parse.h"
}
%define api.pure full
%define api.prefix {tt_}
%define api.token.prefix {TOK_}
%define api.value.type union
%define api.location.type {struct tt_loc}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {struct tt_parse *p}

%code {
#define YYLLOC_DEFAULT(cur, rhs, n)                                            \
  do {                                                                         \
    (cur).lo = (n) ? YYRHSLOC(rhs, 1).lo : YYRHSLOC(rhs, 0).hi;                \
    (cur).hi = (n) ? YYRHSLOC(rhs, n).hi : YYRHSLOC(rhs, 0).hi;                \
  } while (0)

int tt_yylex(TT_STYPE *, TT_LTYPE *, void *scanner);
static int
tt_lex(TT_STYPE *val, TT_LTYPE *loc, struct tt_parse *p)
{
  int token = p->gave_up ? 0 : tt_yylex(val, loc, p->scanner);

  return p->gave_up ? 0 : token;
}
static void tt_error(TT_LTYPE *, struct tt_parse *, const char *);
}

%token END 0 "end of file"
%token KERNEL "kernel" INCLUDE "include" TYPE "type" PARAM "param"
%token CONST "const" REQUIRE "require" DEF "def" INTRIN "intrin"
%token SCHEDULE "schedule" IN "in" ELSE "else" WHERE "where"
%token OROR "||" ANDAND "&&" EQEQ "==" NOTEQ "!=" LE "<=" GE ">="
%token SHL "<<" SHR ">>" ADDEQ "+=" DOTDOT ".."
%token <int64_t> INT "integer" BOOL "boolean"
%token <int64_t> ROLE "input, weight or output" RED "reduction"
%token <double> FLT "float"
%token <struct tt_ident *> ID "name"
%token <struct tt_ident *> DT "element type" STR "string" CBLOCK "C block"
%token <struct tt_ast *> BADNUM "number"

%type <struct tt_list *> exprs binders shapes attrs idents inits operands
%type <struct tt_list *> body scalls sargs ints
%type <struct tt_ast *> expr primary where otherwise
%type <struct tt_ident *> ty opt_ty member opt_str word
%type <struct tt_binder *> binder opt_range
%type <struct tt_shape *> shape
%type <struct tt_init *> init
%type <struct tt_attr *> attr
%type <struct tt_operand *> operand
%type <struct tt_item *> clause
%type <struct tt_sarg *> sarg svalue
%type <struct tt_scall *> scall
%type <int64_t> sint

%destructor { tt_list_free($$); } <struct tt_list *>

%precedence ':'
%precedence '?'
%left "||"
%left "&&"
%left "==" "!=" '<' '>' "<=" ">="
%left '|'
%left '^'
%left '&'
%left "<<" ">>"
%left '+' '-'
%left '*' '/' '%'
%precedence UNARY

%%
file: %empty | file item ;

item:
  "kernel" ID ';'               { tt_item_kernel(p, @$, $2); }
| "include" STR ';'             { tt_item_include(p, @$, $2); }
| "type" types ';'
| "param" params ';'
| "const" consts ';'
| "require" expr ';'            { tt_item_require(p, @$, $2, NULL); }
| "require" expr ',' STR ';'    { tt_item_require(p, @$, $2, $4); }
| ROLE shapes ':' ty opt_range attrs ';'
    { tt_item_tensors(p, @$, (enum tt_role)$1, $2, $4, $5, $6); }
| "def" ID '(' idents ')' '=' expr ';'
    { tt_item_def(p, @$, $2, $4, $7); }
| ID opt_ty '=' expr ';'
    { tt_item_add(p, tt_item_stage(p, @$, $1, false, NULL, $2, $4, false)); }
| ID '[' binders ']' opt_ty '=' expr ';'
    { tt_item_add(p, tt_item_stage(p, @$, $1, true, $3, $5, $7, false)); }
| "intrin" ID '(' operands ')' '{' body '}'
    { tt_item_intrin(p, @$, $2, $4, $7); }
| "schedule" opt_str '{' scalls '}'
    { tt_item_schedule(p, @$, $2, $4); }
| error ';'
| error '}'
;

types:
  ID '=' DT                     { tt_item_type(p, @$, $1, $3); }
| types ',' ID '=' DT           { tt_item_type(p, @$, $3, $5); }
;
params:
  param
| params ',' param
;
param: ID opt_ty '=' expr       { tt_item_param(p, @$, $1, $2, $4); } ;
consts:
  const
| consts ',' const
;
const: shape opt_ty '=' init    { tt_item_const(p, @$, $1, $2, $4); } ;

shapes:
  shape                         { $$ = tt_list_add(NULL, $1); }
| shapes ',' shape              { $$ = tt_list_add($1, $3); }
;
shape:
  ID                            { $$ = tt_shape_new(p, $1, NULL); }
| ID '[' exprs ']'              { $$ = tt_shape_new(p, $1, $3); }
;
ty: DT | ID ;
opt_ty: %empty { $$ = NULL; } | ':' ty { $$ = $2; } ;
opt_str: %empty { $$ = NULL; } | STR ;
opt_range:
  %empty                        { $$ = NULL; }
| "in" expr                     { $$ = tt_binder_new(p, NULL, NULL, $2); }
| "in" expr ".." expr           { $$ = tt_binder_new(p, NULL, $2, $4); }
;
attrs:
  %empty                        { $$ = NULL; }
| attrs attr                    { $$ = tt_list_add($1, $2); }
;
attr:
  ID '(' exprs ')'              { $$ = tt_attr_new(p, $1, NULL, $3); }
| ID STR                        { $$ = tt_attr_new(p, $1, $2->name, NULL); }
;
idents:
  ID                            { $$ = tt_list_add(NULL, $1); }
| idents ',' ID                 { $$ = tt_list_add($1, $3); }
;
init:
  expr                          { $$ = tt_init_expr(p, $1); }
| '{' inits '}'                 { $$ = tt_init_list(p, @$, $2); }
;
inits:
  init                          { $$ = tt_list_add(NULL, $1); }
| inits ',' init                { $$ = tt_list_add($1, $3); }
;

binders:
  binder                        { $$ = tt_list_add(NULL, $1); }
| binders ',' binder            { $$ = tt_list_add($1, $3); }
;
binder:
  expr                          { $$ = tt_binder_new(p, $1, NULL, NULL); }
| expr "in" expr                { $$ = tt_binder_new(p, $1, NULL, $3); }
| expr "in" expr ".." expr      { $$ = tt_binder_new(p, $1, $3, $5); }
;
where: %empty { $$ = NULL; } | "where" expr { $$ = $2; } ;
otherwise: %empty { $$ = NULL; } | "else" expr { $$ = $2; } ;

operands:
  operand                       { $$ = tt_list_add(NULL, $1); }
| operands ',' operand          { $$ = tt_list_add($1, $3); }
;
operand: shape ':' ty attrs     { $$ = tt_operand_new(p, $1, $3, $4); } ;
body:
  %empty                        { $$ = NULL; }
| body clause                   { $$ = tt_list_add($1, $2); }
| body error ';'
;
clause:
  ID '=' expr ';'
    { $$ = tt_item_stage(p, @$, $1, false, NULL, NULL, $3, false); }
| ID "+=" expr ';'
    { $$ = tt_item_stage(p, @$, $1, false, NULL, NULL, $3, true); }
| ID '[' binders ']' '=' expr ';'
    { $$ = tt_item_stage(p, @$, $1, true, $3, NULL, $6, false); }
| ID '[' binders ']' "+=" expr ';'
    { $$ = tt_item_stage(p, @$, $1, true, $3, NULL, $6, true); }
| ID STR ';'                    { $$ = tt_item_clause(p, @$, $1, $2, false); }
| ID CBLOCK                     { $$ = tt_item_clause(p, @$, $1, $2, true); }
;

scalls:
  %empty                        { $$ = NULL; }
| scalls scall                  { $$ = tt_list_add($1, $2); }
| scalls error ';'
;
scall:
  ID '.' ID '(' ')' ';'
    { $$ = tt_scall_new(p, @$, $1, $3, NULL); }
| ID '.' ID '(' sargs ')' ';'
    { $$ = tt_scall_new(p, @$, $1, $3, $5); }
;
sargs:
  sarg                          { $$ = tt_list_add(NULL, $1); }
| sargs ',' sarg                { $$ = tt_list_add($1, $3); }
;
sarg:
  svalue
| ID '=' svalue                 { $$ = tt_sarg_keyed($1, $3); }
;
svalue:
  word      { $$ = tt_sarg_new(p, TT_SARG_ID, $1->name, 0, NULL); }
| sint      { $$ = tt_sarg_new(p, TT_SARG_INT, NULL, $1, NULL); }
| STR       { $$ = tt_sarg_new(p, TT_SARG_STR, $1->name, 0, NULL); }
| '?'       { $$ = tt_sarg_new(p, TT_SARG_ANY, NULL, 0, NULL); }
| '{' ints '}' { $$ = tt_sarg_new(p, TT_SARG_SET, NULL, 0, $2); }
;
sint: INT | '-' INT { $$ = -$2; } ;
ints:
  sint                          { $$ = tt_list_add(NULL, tt_boxed(p, $1)); }
| ints ',' sint                 { $$ = tt_list_add($1, tt_boxed(p, $3)); }
;
/* A loop may be named m.1: it scans as a name, a dot and a number. */
word: ID | ID '.' INT           { $$ = tt_ident_number(p, $1, $3); } ;

exprs:
  expr                          { $$ = tt_list_add(NULL, $1); }
| exprs ',' expr                { $$ = tt_list_add($1, $3); }
;
expr:
  primary
| expr '?' expr ':' expr        { $$ = tt_ast_cond(p, @$, @2, $1, $3, $5); }
| expr "||" expr  { $$ = tt_ast_binary(p, @$, @2, TT_OR, $1, $3); }
| expr "&&" expr  { $$ = tt_ast_binary(p, @$, @2, TT_AND, $1, $3); }
| expr "==" expr  { $$ = tt_ast_binary(p, @$, @2, TT_EQ, $1, $3); }
| expr "!=" expr  { $$ = tt_ast_binary(p, @$, @2, TT_NE, $1, $3); }
| expr '<' expr   { $$ = tt_ast_binary(p, @$, @2, TT_LT, $1, $3); }
| expr '>' expr   { $$ = tt_ast_binary(p, @$, @2, TT_GT, $1, $3); }
| expr "<=" expr  { $$ = tt_ast_binary(p, @$, @2, TT_LE, $1, $3); }
| expr ">=" expr  { $$ = tt_ast_binary(p, @$, @2, TT_GE, $1, $3); }
| expr '|' expr   { $$ = tt_ast_binary(p, @$, @2, TT_BOR, $1, $3); }
| expr '^' expr   { $$ = tt_ast_binary(p, @$, @2, TT_BXOR, $1, $3); }
| expr '&' expr   { $$ = tt_ast_binary(p, @$, @2, TT_BAND, $1, $3); }
| expr "<<" expr  { $$ = tt_ast_binary(p, @$, @2, TT_SHL, $1, $3); }
| expr ">>" expr  { $$ = tt_ast_binary(p, @$, @2, TT_SHR, $1, $3); }
| expr '+' expr   { $$ = tt_ast_binary(p, @$, @2, TT_ADD, $1, $3); }
| expr '-' expr   { $$ = tt_ast_binary(p, @$, @2, TT_SUB, $1, $3); }
| expr '*' expr   { $$ = tt_ast_binary(p, @$, @2, TT_MUL, $1, $3); }
| expr '/' expr   { $$ = tt_ast_binary(p, @$, @2, TT_DIV, $1, $3); }
| expr '%' expr   { $$ = tt_ast_binary(p, @$, @2, TT_MOD, $1, $3); }
| '-' expr %prec UNARY { $$ = tt_ast_unary(p, @$, @1, TT_AST_NEG, $2); }
| '!' expr %prec UNARY { $$ = tt_ast_unary(p, @$, @1, TT_AST_NOT, $2); }
| '~' expr %prec UNARY { $$ = tt_ast_unary(p, @$, @1, TT_AST_BITNOT, $2); }
;
primary:
  INT                           { $$ = tt_ast_int(p, @$, $1); }
| FLT                           { $$ = tt_ast_flt(p, @$, $1); }
| BOOL                          { $$ = tt_ast_bool(p, @$, $1); }
| BADNUM
| ID                            { $$ = tt_ast_name(p, $1); }
| ty '.' member                 { $$ = tt_ast_member(p, @$, $1, $3); }
| '(' expr ')'                  { $$ = tt_ast_paren(p, @$, $2); }
| ID '[' exprs otherwise ']'    { $$ = tt_ast_access(p, @$, $1, $3, $4); }
| ID '(' exprs ')'              { $$ = tt_ast_call(p, @$, $1, $3); }
| DT '(' exprs ')'              { $$ = tt_ast_call(p, @$, $1, $3); }
| RED '(' exprs ')'
    { $$ = tt_ast_nary(p, @$, @1, (enum tt_reducer)$1, $3); }
| RED '[' binders where ']' '(' expr ')'
    { $$ = tt_ast_reduce(p, @$, @1, (enum tt_reducer)$1, $3, $4, $7); }
;
member:
  ID
| RED { $$ = tt_ident_new(p, @1, tt_reducer_name((enum tt_reducer)$1)); }
;
%%

static void
tt_error(TT_LTYPE *loc, struct tt_parse *p, const char *message)
{
  (void)message; /* only "memory exhausted" comes here */
  tt_parse_give_up(p, TT_D_TOO_DEEP, *loc, "the text nests too deeply");
}

/* Keywords and operators are shown in quotes, classes of tokens are not. */
static void
add_symbol(struct tt_sb *sb, yysymbol_kind_t kind)
{
  bool quoted = kind >= YYSYMBOL_KERNEL && kind <= YYSYMBOL_DOTDOT;

  tt_sb_printf(sb, quoted ? " '%s'" : " %s", yysymbol_name(kind));
}

static int
yyreport_syntax_error(const yypcontext_t *ctx, struct tt_parse *p)
{
  enum { MAX_EXPECTED = 5 };
  yysymbol_kind_t expected[MAX_EXPECTED];
  int n = yypcontext_expected_tokens(ctx, expected, MAX_EXPECTED);
  yysymbol_kind_t token = yypcontext_token(ctx);
  struct tt_sb sb = {0};

  if (p->gave_up)
    return 0;
  tt_sb_add(&sb, "unexpected");
  if (token != YYSYMBOL_YYEMPTY)
    add_symbol(&sb, token);
  for (int i = 0; i < n; i++) {
    tt_sb_add(&sb, i == 0 ? ", expected" : i + 1 < n ? "," : " or");
    add_symbol(&sb, expected[i]);
  }
  tt_diag(p->diags, TT_D_SYNTAX, tt_parse_span(p, *yypcontext_location(ctx)),
          "%s", tt_sb_str(&sb));
  tt_sb_free(&sb);
  return 0;
}
