import { z } from 'zod'

/** Dotted paths of the keys that have no keys below them, in their order. */
export function leafKeys(schema: z.ZodType, path = ''): string[] {
  const { innerType } = (schema as unknown as { def: { innerType?: z.ZodType } }).def
  if (innerType) return leafKeys(innerType, path)
  if (!(schema instanceof z.ZodObject)) return [path]
  return Object.entries(schema.shape).flatMap(([key, child]) =>
    leafKeys(child as z.ZodType, path ? `${path}.${key}` : key),
  )
}
