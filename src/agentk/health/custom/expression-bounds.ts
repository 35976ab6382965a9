/** Bounds outside of the schema: the thread of views loads them with CEL, and loads no schema. */

/** limit of the characters of an expression */
export const maxExpressionLength = 2048
/** Names that an expression cannot define: CEL's own, and the object that rules judge. */
export const reservedNames: ReadonlySet<string> = new Set(
  `true false null in as break const continue else for function if import let loop package namespace return var void while
  object`.split(/\s+/),
)
