/** Limit of nested maps and lists. */
const maxDepth = 500

/** Text of a `values.schema.json` for helm, or the problem for which helm must not read it. */
export type SchemaReading =
  | { readonly text: string; readonly problem?: undefined }
  | { readonly problem: string; readonly text?: undefined }

/**
 * Removes the names of a schema's parts (`$id`, of draft 4 `id`), which helm up to 3.17 opens as addresses. References
 * to parts by place stay valid. A reference that leads outside the schema is a problem.
 *
 * @returns the text as it is if it has no such name
 */
export function readValuesSchema(text: string): SchemaReading {
  let schema: unknown
  try {
    schema = JSON.parse(text)
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error
    return { problem: 'the schema is no JSON' }
  }
  const copy = new SchemaCopy(schema)
  const named = copy.of(schema, root)
  if (copy.isTooDeep) return { problem: `the schema has more than ${maxDepth} maps and lists inside one another` }
  if (copy.isForeign) return { problem: 'a $ref or $schema leads outside the schema: helm would fetch it' }
  return { text: copy.isNamed ? JSON.stringify(named) : text }
}

interface At {
  /** JSON pointer of the part that a `$ref` without a name refers to */
  readonly base: string
  /** JSON pointer */
  readonly place: string
  readonly depth: number
  /** within a value of `const` or `enum`, which is literal */
  readonly isLiteral: boolean
  /** its keys are names, as in `properties` */
  readonly hasNames: boolean
}

const root: At = { base: '', place: '', depth: 0, isLiteral: false, hasNames: false }

class SchemaCopy {
  readonly #isDraft4: boolean
  isForeign = false
  isTooDeep = false
  /** a name was removed */
  isNamed = false

  constructor(schema: unknown) {
    const draft = isMap(schema) ? schema.$schema : undefined
    this.#isDraft4 = typeof draft === 'string' && draft.includes('draft-04')
  }

  of(value: unknown, at: At): unknown {
    if (at.depth > maxDepth) {
      this.isTooDeep = true
      return value
    }
    const inside = (key: string | number): At => {
      const place = `${at.place}/${pointerPart(String(key))}`
      return { ...at, place, depth: at.depth + 1, hasNames: false }
    }
    if (Array.isArray(value)) return value.map((item, index) => this.of(item, inside(index)))
    if (!isMap(value)) return value
    const base = this.#isResource(value) && !at.isLiteral ? at.place : at.base
    const entries = Object.entries(value).flatMap(([key, item]): [string, unknown][] => {
      if (typeof item !== 'string') {
        const isLiteral = at.isLiteral || (literals.has(key) && !at.hasNames)
        return [[key, this.of(item, { ...inside(key), base, isLiteral, hasNames: ofNames.has(key) })]]
      }
      if (at.isLiteral || !isName(key, item)) return [[key, this.#text(key, item, base)]]
      this.isNamed = true
      return []
    })
    return Object.fromEntries(entries)
  }

  /** True if references by place in the map are relative to it. */
  #isResource(map: Readonly<Record<string, unknown>>): boolean {
    const name = this.#isDraft4 ? map.id : map.$id
    return typeof name === 'string' && isName('$id', name)
  }

  #text(key: string, text: string, base: string): string {
    if (key === '$schema') this.isForeign ||= !/^https?:\/\/json-schema\.org\//.test(text)
    if (!/^\$(?:ref|dynamicRef|recursiveRef)$/.test(key)) return text
    this.isForeign ||= !text.startsWith('#')
    return base !== '' && /^#(?:\/|$)/.test(text) ? `#${base}${text.slice(1)}` : text
  }
}

const literals = new Set(['const', 'enum'])
const ofNames = new Set(['properties', 'patternProperties', 'dependencies', 'definitions', '$defs', 'dependentSchemas'])

/** True for a name that is an address; `#…` alone names a part within the schema. */
function isName(key: string, text: string): boolean {
  return (key === '$id' || key === 'id') && !text.startsWith('#')
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function pointerPart(key: string): string {
  return encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))
}
