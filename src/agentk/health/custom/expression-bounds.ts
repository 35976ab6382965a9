/** Beside the schema: the thread of views loads these with CEL, and no schema. */

/** characters of an expression */
export const maxExpressionLength = 2048
/** No name in an expression may be one of them: CEL's own, and what rules are about. */
export const reservedNames: ReadonlySet<string> = new Set(
  `true false null in as break const continue else for function if import let loop package namespace return var void while
  object`.split(/\s+/),
)
