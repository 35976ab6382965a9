import { distance } from 'fastest-levenshtein'
import * as z from 'zod'
import { nearestName, plainName } from './nearest-name.ts'

export type KeyPath = readonly (string | number)[]

export interface UnknownKey {
  readonly path: KeyPath
  /** the nearest known key, as `keyOf` writes it */
  readonly hint?: string
  /** the key is a decisive one, misspelt or in the wrong place */
  readonly isDecisive?: true
  /** the key has no value: a known key without one counts as absent */
  readonly isEmpty?: true
}

/** Bound of unknown keys for which the nearest name is searched, besides decisive ones. */
const maxHints = 100
/** Greatest distance between a misspelt decisive key and the right one. letters */
const maxEdits = 2
/** Length from which a name is searched for elsewhere: a shorter one has other meanings in many blocks. letters */
const minMisplaced = 6

/**
 * Keys that grant rights, or that name an address on which a program listens. Each key above such a key is one, too.
 *
 * @see DecisiveKeys.of
 */
export class DecisiveKeys {
  static readonly none = DecisiveKeys.of([])
  readonly #paths: ReadonlySet<string>
  /** in the order of `of` */
  readonly #byName: ReadonlyMap<string, readonly string[]>

  private constructor(paths: ReadonlySet<string>) {
    this.#paths = paths
    this.#byName = Map.groupBy(paths, (path) => plainName(lastName(path)))
  }

  /** @param leaves - the deepest keys, as `agents[].tokens[].sha256` */
  static of(leaves: readonly string[]): DecisiveKeys {
    const all = leaves.flatMap((leaf) => {
      const names = leaf.split('.')
      return names.map((_, i) => names.slice(0, i + 1).join('.'))
    })
    return new DecisiveKeys(new Set(all.map((path) => path.replace(/(\[\])+$/, ''))))
  }

  /** Paths of all decisive keys. */
  [Symbol.iterator](): Iterator<string> {
    return this.#paths[Symbol.iterator]()
  }

  /**
   * @param block - block of the key, as `agents[]`
   * @param names - known keys of the block
   */
  isNear(key: string, block: string, names: readonly string[]): boolean {
    return names.some((name) => this.#paths.has(below(block, name)) && isWithinEdits(key, name))
  }

  /** Returns the path at which a key of this name is known; of several, the one with most of the path in common. */
  elsewhere(key: string, block: string): string | undefined {
    const plain = plainName(key)
    if (plain.length < minMisplaced) return undefined
    const common = (path: string) => commonNames(path.split('.'), block.split('.'))
    return this.#byName.get(plain)?.reduce((best, path) => (common(path) > common(best) ? path : best))
  }
}

const lastName = (path: string) => path.slice(path.lastIndexOf('.') + 1)
const below = (block: string, name: string) => (block === '' ? name : `${block}.${name}`)

function commonNames(one: readonly string[], other: readonly string[]): number {
  const different = one.findIndex((name, i) => name !== other[i])
  return different < 0 ? one.length : different
}

function isWithinEdits(key: string, name: string): boolean {
  if (plainName(key) === plainName(name)) return true
  return Math.abs(key.length - name.length) <= maxEdits && distance(key, name) <= maxEdits
}

/** Walks a tree beside its copy, and removes from the copy the keys that the schema does not know. */
class Walk {
  readonly found: UnknownKey[] = []
  readonly #decisive: DecisiveKeys
  readonly #passed: ReadonlySet<string>
  #hints = maxHints

  constructor(decisive: DecisiveKeys, passed: ReadonlySet<string>) {
    this.#decisive = decisive
    this.#passed = passed
  }

  /** @param block - `path` without numbers */
  take(raw: unknown, tree: unknown, at: { schema: z.ZodType; path: KeyPath; block: string }): void {
    const { path, block } = at
    const schema = unwrap(at.schema)
    if (schema instanceof z.ZodArray && Array.isArray(raw)) {
      const element = schema.element as z.ZodType
      for (const [i, child] of raw.entries()) {
        this.take(child, (tree as unknown[])[i], { schema: element, path: [...path, i], block: `${block}[]` })
      }
    }
    if (!(schema instanceof z.ZodObject) || !isTree(raw)) return
    const names = Object.keys(schema.shape)
    for (const [key, child] of Object.entries(raw)) {
      const own = Object.hasOwn(schema.shape, key) ? (schema.shape[key] as z.ZodType) : undefined
      if (own) {
        const next = (tree as Record<string, unknown>)[key]
        this.take(child, next, { schema: own, path: [...path, key], block: below(block, key) })
      } else if (!this.#passed.has(below(block, key))) {
        delete (tree as Record<string, unknown>)[key]
        this.#unknown([...path, key], { key, names, block, isEmpty: child === null || child === undefined })
      }
    }
  }

  #unknown(path: KeyPath, at: { key: string; names: readonly string[]; block: string; isEmpty: boolean }): void {
    const { key, names, block, isEmpty } = at
    const isNear = this.#decisive.isNear(key, block, names)
    const near = isNear || this.#hints-- > 0 ? nearestName(key, names) : undefined
    const beside = near === undefined ? undefined : keyOf([...path.slice(0, -1), near])
    const elsewhere = beside === undefined ? this.#decisive.elsewhere(key, block) : undefined
    const isDecisive = isNear || elsewhere !== undefined
    if (isEmpty && !isDecisive) return
    const hint = beside ?? elsewhere
    this.found.push({
      path,
      ...(hint === undefined ? {} : { hint }),
      ...(isDecisive ? { isDecisive } : {}),
      ...(isEmpty ? { isEmpty } : {}),
    })
  }
}

interface Known {
  readonly schema: z.ZodType
  /** place of the tree in the file */
  readonly path?: KeyPath
  readonly decisive?: DecisiveKeys
  /** unknown keys that the caller has dealt with, as `agent.redis_conn_info_ttl` */
  readonly passed?: ReadonlySet<string>
}

/**
 * Removes keys that `schema` does not know from `tree`, down to the leaves, and names the nearest known ones.
 *
 * @param raw - as the file has it; `tree` is its copy without keys that have no value
 */
export function takeUnknownKeys(
  { raw, tree }: { readonly raw: unknown; readonly tree: unknown },
  { schema, path = [], decisive = DecisiveKeys.none, passed = new Set() }: Known,
): UnknownKey[] {
  const walk = new Walk(decisive, passed)
  walk.take(raw, tree, { schema, path, block: path.filter((part) => typeof part === 'string').join('.') })
  return walk.found
}

function unwrap(schema: z.ZodType): z.ZodType {
  const { def } = schema as unknown as { def: { innerType?: z.ZodType } }
  return def.innerType ? unwrap(def.innerType) : schema
}

const isTree = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `agent.listen.websocket`, `cluster.discovery.static[0]` */
export function keyOf(path: KeyPath): string {
  return path
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${key}`))
    .join('')
    .replace(/^\./, '')
}
