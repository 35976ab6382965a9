import { createHash } from 'node:crypto'
import {
  type ArgoWord,
  argoWords,
  type QueryObject,
  type SortName,
  sortNames,
  type ViewName,
  viewsBounds,
} from '../../../../proto/views-json.ts'
import type { Selects } from '../projection/selectors.ts'
import type { ObjectRecord } from '../store/record.ts'
import { type GraphQuery, readGraph } from './graph-query.ts'
import { readLabelQuery } from './label-query.ts'
import { list, members, oneOf, parse, refuse, text } from './members.ts'
import { ObjectChoice } from './object-choice.ts'

const viewNames: readonly ViewName[] = ['tree', 'list', 'environments', 'events', 'object', 'graph']
/** Longer keys are kept as a digest. */
const maxKey = 1024
/** characters of the kind, namespace or name of an object that is asked for */
const maxWord = 512
const defaultLimit = 100

/** Query that was read and checked. */
export interface ReadQuery {
  readonly view: ViewName
  readonly limit: number
  /** undefined: all */
  readonly namespaces: ReadonlySet<string> | undefined
  /** empty: all */
  readonly environment: string
  readonly application: string
  /** in lower case; empty: all */
  readonly text: string
  readonly kinds: ReadonlySet<string> | undefined
  readonly verdicts: ReadonlySet<ArgoWord> | undefined
  readonly objects: ObjectChoice | undefined
  readonly labels: Selects | undefined
  /** for the view `graph` */
  readonly graph?: GraphQuery
  /** further condition on an object; absent: none */
  readonly selects?: (record: ObjectRecord) => boolean
  /** undefined: the worst first */
  readonly sort: SortName | undefined
  /** equal keys mean equal `namespaces` */
  readonly namespacesKey: string
  /** equal keys ask for the same, apart from limit and order */
  readonly key: string
}

/** @throws KasError BAD_REQUEST: it names what is allowed */
export function readQuery(bytes: Uint8Array): ReadQuery {
  const { maxQueryBytes, maxLimit } = viewsBounds
  if (bytes.length > maxQueryBytes) refuse(`a query has ${maxQueryBytes} bytes at most`)
  const known = ['view', 'scope', 'filter', 'objects', 'labels', 'sort', 'limit', 'graph'] as const
  const query = members(parse(bytes), 'the query', known)
  if (query.view === 'graph') return graphOf(query)
  if (query.graph !== undefined) refuse('the view "graph" has a "graph"')
  const scope = members(query.scope ?? {}, '"scope"', ['namespaces', 'environment', 'application'])
  const filter = members(query.filter ?? {}, '"filter"', ['text', 'kinds', 'verdicts'])
  const view = oneOf(query.view, '"view"', viewNames)
  const { limit = defaultLimit } = query
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > maxLimit) {
    refuse(`"limit" is a whole number from 1 to ${maxLimit}`)
  }
  const environment = text(scope.environment, '"environment"')
  if (environment && !/^\d{1,15}\/./.test(environment)) refuse('"environment" is <project id>/<slug>')
  const asked = {
    view,
    namespaces: list(scope.namespaces, '"namespaces"'),
    environment,
    application: text(scope.application, '"application"'),
    text: text(filter.text, '"text"').toLowerCase(),
    kinds: list(filter.kinds, '"kinds"'),
    verdicts: list(filter.verdicts, '"verdicts"')?.map((word) => oneOf(word, '"verdicts"', argoWords)),
    objects: objectsIn(query.objects),
    labels: text(query.labels, '"labels"'),
    sort: query.sort === undefined ? undefined : oneOf(query.sort, '"sort"', sortNames),
  }
  const labels = readLabelQuery(asked.labels, '"labels"')
  if (view === 'object' && !asked.objects) refuse('the view "object" is of "objects"')
  if (
    view === 'events' &&
    (environment || asked.application || asked.verdicts || asked.objects || labels || asked.sort)
  ) {
    refuse('events have a scope of "namespaces", and a filter of "text" and "kinds"')
  }
  const set = <T>(values: readonly T[] | undefined) => values && new Set(values)
  return {
    ...asked,
    limit: limit as number,
    namespaces: set(asked.namespaces),
    kinds: set(asked.kinds),
    verdicts: set(asked.verdicts),
    objects: asked.objects && new ObjectChoice(asked.objects),
    labels,
    namespacesKey: JSON.stringify(asked.namespaces ?? null),
    key: keyOf(asked),
  }
}

function graphOf({ view: _, graph, ...others }: Readonly<Record<string, unknown>>): ReadQuery {
  const [other] = Object.keys(others)
  if (other !== undefined) refuse(`the view "graph" has a "graph" alone, and no "${other}"`)
  const read = readGraph(graph)
  const { names } = read.namespaces
  return {
    view: 'graph',
    limit: viewsBounds.maxVertices,
    namespaces: names,
    environment: '',
    application: '',
    text: '',
    kinds: undefined,
    verdicts: undefined,
    objects: undefined,
    labels: undefined,
    sort: undefined,
    graph: read,
    namespacesKey: JSON.stringify(names ? [...names].sort() : null),
    key: keyOf({ graph }),
  }
}

/** Returns a key: equal keys ask for the same. A long key is a digest. */
export function keyOf(asked: object): string {
  const json = JSON.stringify({ ...asked, sort: undefined }) // a forest has no order
  return json.length <= maxKey ? json : createHash('sha256').update(json).digest('base64url')
}

function objectsIn(value: unknown): readonly QueryObject[] | undefined {
  if (value === undefined) return undefined
  const { maxObjects } = viewsBounds
  if (!Array.isArray(value) || value.length === 0 || value.length > maxObjects) {
    return refuse(`"objects" is a list of 1 to ${maxObjects}`)
  }
  return value.map((one) => {
    const {
      kind,
      namespace,
      name,
      generation = 0,
    } = members(one, 'one of "objects"', ['kind', 'namespace', 'name', 'generation'])
    const [of, where, called] = [text(kind, '"kind"'), text(namespace, '"namespace"'), text(name, '"name"')]
    if (of === '') refuse('one of "objects" has no "kind"')
    if (Math.max(of.length, where.length, called.length) > maxWord)
      refuse('one of "objects" has a text that is too long')
    if (!Number.isSafeInteger(generation) || (generation as number) < 0) refuse('"generation" is a whole number')
    return { kind: of, namespace: where, name: called, generation: generation as number }
  })
}
