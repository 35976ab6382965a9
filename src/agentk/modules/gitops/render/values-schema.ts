/** Of maps and lists inside one another. */
const maxDepth = 500

/** What helm is to read of a `values.schema.json`, or why it is not to read it. */
export type SchemaReading =
  | { readonly text: string; readonly problem?: undefined }
  | { readonly problem: string; readonly text?: undefined }

/**
 * The schema without the names that its parts give themselves (`$id`, of draft 4 `id`): helm up to 3.17 opens them as
 * addresses. What refers to a part by its place goes on doing so. What leads outside the schema is refused.
 *
 * @returns the text as it is where it has no such name
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
  /** of the part to which a `$ref` without a name belongs, as a JSON pointer */
  readonly base: string
  /** as a JSON pointer */
  readonly place: string
  readonly depth: number
  /** in a value of `const` or `enum`, which stands for itself */
  readonly isLiteral: boolean
  /** its keys are names, as of `properties` */
  readonly hasNames: boolean
}

const root: At = { base: '', place: '', depth: 0, isLiteral: false, hasNames: false }

class SchemaCopy {
  readonly #isDraft4: boolean
  isForeign = false
  isTooDeep = false
  /** something was left out */
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

  /** Whether what it refers to by place is in itself. */
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

/** What is `#…` alone names a part within the schema. */
function isName(key: string, text: string): boolean {
  return (key === '$id' || key === 'id') && !text.startsWith('#')
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function pointerPart(key: string): string {
  return encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))
}
