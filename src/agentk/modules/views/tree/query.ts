import { createHash } from 'node:crypto'
import { KasError } from '../../../../lib/errors.ts'
import {
  type ArgoWord,
  argoWords,
  type QueryObject,
  type SortName,
  sortNames,
  type ViewName,
  viewsBounds,
} from '../../../../proto/views-json.ts'
import { compileSelector, type Selects } from '../store/selectors.ts'
import { readLabelQuery } from './label-query.ts'
import { ObjectChoice } from './object-choice.ts'

const viewNames: readonly ViewName[] = ['tree', 'list', 'environments', 'events', 'object']
/** Longer ones are kept as a digest. */
const maxKey = 1024
/** characters of the kind, namespace or name of an object that is asked for */
const maxWord = 512
const defaultLimit = 100

/** A query that was read whole: what it does not name is not asked for. */
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
  /** undefined: the worst first */
  readonly sort: SortName | undefined
  /** equal ones have the same `namespaces` */
  readonly namespacesKey: string
  /** equal ones ask for the same, but for the limit */
  readonly key: string
}

/** @throws KasError BAD_REQUEST: with what is allowed */
export function readQuery(bytes: Uint8Array): ReadQuery {
  const { maxQueryBytes, maxLimit } = viewsBounds
  if (bytes.length > maxQueryBytes) refuse(`a query has ${maxQueryBytes} bytes at most`)
  const query = members(parse(bytes), 'the query', ['view', 'scope', 'filter', 'objects', 'labels', 'sort', 'limit'])
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
  const selector = asked.labels === '' ? undefined : readLabelQuery(asked.labels)
  if (asked.labels !== '' && !selector) refuse('"labels" is a selector such as app=web,tier!=cache')
  if (view === 'object' && !asked.objects) refuse('the view "object" is of "objects"')
  if (
    view === 'events' &&
    (environment || asked.application || asked.verdicts || asked.objects || selector || asked.sort)
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
    labels: selector && compileSelector(selector),
    namespacesKey: JSON.stringify(asked.namespaces ?? null),
    key: keyOf(asked),
  }
}

function keyOf(asked: object): string {
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

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return refuse('the query is not JSON')
  }
}

function members<Key extends string>(value: unknown, name: string, allowed: readonly Key[]) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refuse(`${name} is not an object`)
  const unknown = Object.keys(value).find((key) => !allowed.includes(key as Key))
  if (unknown !== undefined) {
    refuse(`${name} has the unknown key ${shown(unknown)}; allowed: ${allowed.join(', ')}`)
  }
  return value as Partial<Record<Key, unknown>>
}

function oneOf<T extends string>(value: unknown, name: string, allowed: readonly T[]): T {
  if (allowed.includes(value as T)) return value as T
  return refuse(`${name} is one of ${allowed.filter(Boolean).join(', ')}`)
}

function text(value: unknown, name: string): string {
  if (value === undefined) return ''
  return typeof value === 'string' ? value : refuse(`${name} is not a text`)
}

/** Each once, in order. An empty one asks for nothing, as an absent one does. */
function list(value: unknown, name: string): readonly string[] | undefined {
  if (value === undefined) return undefined
  if (!Array.isArray(value) || !value.every((one) => typeof one === 'string'))
    return refuse(`${name} is not a list of texts`)
  return value.length > 0 ? [...new Set<string>(value)].sort() : undefined
}

const shown = (key: string) => JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key)

function refuse(detail: string): never {
  throw new KasError({ code: 'BAD_REQUEST', detail })
}
