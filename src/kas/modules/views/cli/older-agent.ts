import { kindWord, namesKey } from '../../../../kubernetes/kind-words.ts'
import type { Query, QueryObject, Row, SortName } from '../../../../proto/views-json.ts'

/** A query, and whether what was denied a while ago is asked anew. */
export type AskedView = Query & { readonly fresh?: boolean }

/** In place of a code of kas: its WebSocket takes no message of this size. */
export const tooLarge = 'QUERY_TOO_LARGE'

export interface Less {
  readonly asked: AskedView
  /** in place of what is not asked for: which rows of the root are shown; undefined: all */
  readonly choose: ((row: Row) => boolean) | undefined
}

/** @returns what an older kas or agentk says that it does not know; undefined: it says something else */
export function unknownKey({ code, message }: { readonly code: string; readonly message: string }): string | undefined {
  if (code === tooLarge) return 'objects'
  if (code !== 'BAD_REQUEST') return undefined
  if (/"view" is one of /.test(message)) return 'object'
  return /the query has the unknown key "(\w{1,20})"/.exec(message)?.[1]
}

/**
 * A query without what an older agentk does not know.
 *
 * @returns undefined: nothing can take its place, as rows do not have their labels; or it is not asked for
 */
export function withoutKey(asked: AskedView, key: string): Less | undefined {
  const { fresh, objects, sort, ...query } = asked
  const own = { ...(objects ? { objects } : {}), ...(sort ? { sort } : {}), ...(fresh ? { fresh } : {}) }
  if (key === 'fresh' && fresh) return { asked: without({ ...query, ...own }, 'fresh'), choose: undefined }
  if (key === 'object' && query.view === 'object') {
    return { asked: { ...query, ...own, view: 'tree' }, choose: undefined }
  }
  if (key === 'sort' && sort) return { asked: without({ ...query, ...own }, 'sort'), choose: undefined }
  if (key !== 'objects' || !objects) return undefined
  const kinds = kindsOf(objects)
  const [first, ...others] = objects
  const text = others.length === 0 ? first?.name : undefined
  const filter = { ...query.filter, ...(kinds ? { kinds } : {}), ...(text ? { text } : {}) }
  const isChosen = (row: Row) => objects.some((object) => isOf(object, row))
  return {
    asked: without({ ...query, ...own, filter }, 'objects'),
    // in a tree they stand below others
    choose: query.view === 'list' ? isChosen : undefined,
  }
}

function without(asked: AskedView, key: 'fresh' | 'objects' | 'sort'): AskedView {
  const { [key]: _, ...rest } = asked
  return rest
}

/** Of Kubernetes' own kinds the names are known here. @returns undefined: there are others among them */
function kindsOf(objects: readonly QueryObject[]): readonly string[] | undefined {
  const words = objects.map(({ kind }) => kindWord(kind))
  if (words.some(({ builtIn }) => builtIn.length === 0)) return undefined
  return [...new Set(words.flatMap(({ builtIn }) => builtIn.map(({ key }) => key)))]
}

/** The plural and short names of others are not known. */
function isOf({ kind, namespace, name }: QueryObject, row: Row): boolean {
  const isPlace = !namespace || !row.ns || namespace === row.ns
  return namesKey(kind, row.k) && isPlace && (!name || name === row.n)
}

/** As it is asked for: rows without it last, and those as they were. */
export function sorted(rows: readonly Row[], by: SortName): readonly Row[] {
  if (by === 'name') return [...rows].sort((one, other) => (one.n < other.n ? -1 : one.n > other.n ? 1 : 0))
  const measure = ({ t, z }: Row) => (by === 'age' ? t : z?.since) ?? Number.NEGATIVE_INFINITY
  return [...rows].sort((one, other) => measure(other) - measure(one) || 0)
}
