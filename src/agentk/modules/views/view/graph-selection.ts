import { builtIn } from '../../../../kubernetes/kind.ts'
import { builtInKinds } from '../../../../kubernetes/kind-words.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type Bindings, Expression } from '../../../health/custom/cel.ts'
import { Steps } from '../../../health/custom/steps.ts'
import type { ObjectRecord } from '../store/record.ts'
import { type GraphQuery, type KindQuery, notKept } from '../tree/graph-query.ts'

/** Bound of CEL steps for one object and expression: callers are many, and so are objects. */
const maxSteps = 500
/** bound of macros inside one another */
const maxDepth = 1
/** Bound of the cost of all expressions of a request for one object: some 4 ms. A pattern counts as `patternWeight`. */
export const maxWeight = 2000
const patternWeight = 100
/**
 * characters of a pattern, which is compiled each time. Counted repetitions are refused: they are as long as they count
 */
const maxPatternLength = 64
/** characters of one expression */
const maxExpressionLength = 1024
/** Bound of namespaces whose selection is remembered; past it, selections are computed again. */
const maxNamespacesKnown = 10_000

const ofKinds = ['group', 'version', 'resource', 'namespaced'] as const
const ofObjects = ['group', 'version', 'resource', 'namespace', 'name', 'labels'] as const

/** Kind in the terms of expressions. */
export type GraphKind = Pick<ObjectRecord['kind'], 'group' | 'plural' | 'isNamespaced'> & {
  /** empty: unknown; absent: v1 */
  readonly version?: string
}

/** Matches `namespace` outside of texts: CEL reserves the word, clients may use it, so another word replaces it. */
const reserved = /("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<![\w.])namespace(?!\w)/g
const inPlaceOfReserved = '__namespace__'

type Place = { readonly kind: GraphKind; readonly namespace: string; readonly name: string }
type Labelled = Place & { readonly labels: ReadonlyMap<string, string> }

interface CompiledQuery {
  readonly query: KindQuery
  readonly kinds: Test
  readonly objects: Test
}

/** Test by an expression; an expression without a value is not true. */
type Test = (bindings: () => Bindings) => boolean

const noLabels: ReadonlyMap<string, string> = new Map()

/** Selection of the objects that a graph shows. For a kind, the first query decides that matches it. */
export class GraphSelection {
  /** the selected namespaces depend on their labels, and so on the right to list namespaces */
  readonly isByLabels: boolean
  readonly hasRoots: boolean
  readonly #queries: readonly CompiledQuery[]
  readonly #namespaces: GraphQuery['namespaces']
  readonly #ofNamespaces: Test
  readonly #roots: readonly Test[]
  /** by kind: the query that includes it; undefined: none does */
  readonly #byKind = new WeakMap<GraphKind, { readonly found: CompiledQuery | undefined }>()
  readonly #namespacesKnown = new Map<string, boolean>()

  private constructor(
    { namespaces }: GraphQuery,
    queries: readonly CompiledQuery[],
    { ofNamespaces, roots }: { readonly ofNamespaces: Compiled; readonly roots: readonly Compiled[] },
  ) {
    this.#queries = queries
    this.#namespaces = namespaces
    this.#ofNamespaces = ofNamespaces.test
    this.isByLabels = namespaces.labels !== undefined || ofNamespaces.names.has('labels')
    this.#roots = roots.map(({ test }) => test)
    this.hasRoots = roots.length > 0
  }

  /**
   * Yields after each expression, and after each of Kubernetes' own kinds.
   *
   * @throws KasError BAD_REQUEST: an expression cannot be used
   */
  static *read(query: GraphQuery): Generator<undefined, GraphSelection> {
    let left = maxWeight
    const compiled = (text: string, allowed: readonly string[]) => {
      const one = compile(text, allowed)
      left -= one.weight
      if (left < 0) throw bad('expressions may have fewer parts, macros and patterns')
      return one
    }
    const queries: CompiledQuery[] = []
    for (const one of query.queries) {
      const kinds = compiled(one.kinds, ofKinds).test
      yield
      queries.push({ query: one, kinds, objects: compiled(one.expression, ofObjects).test })
      yield
    }
    const ofNamespaces = compiled(query.namespaces.expression, ofObjects)
    yield
    const roots: Compiled[] = []
    for (const one of query.roots) {
      roots.push(compiled(one, ofObjects))
      yield
    }
    const selection = new GraphSelection(query, queries, { ofNamespaces, roots })
    for (const kind of builtInKinds) {
      selection.includesKind(kind)
      yield
    }
    return selection
  }

  includesKind(kind: GraphKind): boolean {
    return this.#includeOf(kind) !== undefined
  }

  /** @param labels - labels of the namespace itself; absent: they are not known */
  selectsNamespace(name: string, labels = noLabels): boolean {
    const { names, fields, labels: selects } = this.#namespaces
    if (names && !names.has(name)) return false
    const of = { kind: builtIn.namespaces, namespace: '', name, labels }
    if ((fields && !fields(of)) || (selects && !selects(labels))) return false
    return this.#ofNamespaces(() => bindingsOf(of))
  }

  /** Does the same, if the name alone decides. */
  selectsName(name: string): boolean {
    const known = this.#namespacesKnown.get(name)
    if (known !== undefined) return known
    if (this.#namespacesKnown.size >= maxNamespacesKnown) this.#namespacesKnown.clear()
    const found = this.selectsNamespace(name)
    this.#namespacesKnown.set(name, found)
    return found
  }

  /** @param isSelected - true if the object's namespace is selected, or the object itself if it is one */
  selects(object: Labelled, isSelected: (namespace: string) => boolean): boolean {
    const include = this.#includeOf(object.kind)
    if (!include || !isIn(object, isSelected)) return false
    const { labels, names } = include.query
    if ((labels && !labels(object.labels)) || (names && !names(object))) return false
    return include.objects(() => bindingsOf(object))
  }

  /** True if an object may be shown that is known by another object's reference alone. */
  mayShow(place: Place, isSelected: (namespace: string) => boolean): boolean {
    const include = this.#includeOf(place.kind)
    if (!include || !isIn(place, isSelected)) return false
    const { labels, names, expression } = include.query
    return !labels && expression === '' && (!names || names(place))
  }

  isRoot(object: Labelled): boolean {
    const bindings = bindingsOf(object)
    return this.#roots.some((test) => test(() => bindings))
  }

  #includeOf(kind: GraphKind): CompiledQuery | undefined {
    const known = this.#byKind.get(kind)
    if (known) return known.found
    const { group, version = 'v1', plural: resource, isNamespaced: namespaced } = kind
    const first = this.#queries.find(({ kinds }) => kinds(() => ({ group, version, resource, namespaced })))
    const found = first?.query.does === 'include' ? first : undefined
    this.#byKind.set(kind, { found })
    return found
  }
}

/** True if the namespace of an object is selected. Cluster-scoped objects are in all, apart from Namespaces. */
function isIn({ kind, namespace, name }: Place, isSelected: (namespace: string) => boolean): boolean {
  if (namespace !== '') return isSelected(namespace)
  return kind.group !== '' || kind.plural !== builtIn.namespaces.plural || isSelected(name)
}

function bindingsOf({ kind, namespace, name, labels }: Labelled): Bindings {
  const { group, version = 'v1', plural: resource } = kind
  return {
    group,
    version,
    resource,
    [inPlaceOfReserved]: namespace,
    name,
    labels: labels as unknown as Bindings[string],
  }
}

interface Compiled {
  readonly test: Test
  /** names that the expression uses */
  readonly names: ReadonlySet<string>
  readonly weight: number
}

/**
 * @param text - empty: always true
 * @throws KasError BAD_REQUEST
 */
function compile(text: string, allowed: readonly string[]): Compiled {
  if (text === '') return { test: () => true, names: new Set(), weight: 0 }
  const expression = readExpression(text)
  const { names, patterns, weight } = expression
  for (const name of names) {
    if (allowed.includes(name === inPlaceOfReserved ? 'namespace' : name)) continue
    const isKept = name !== 'obj' && name !== 'annotations'
    throw bad(isKept ? `${shown(text)}: ${shown(name)} is not known; known: ${allowed.join(', ')}` : notKept)
  }
  if (patterns.some((pattern) => pattern === undefined || pattern.length > maxPatternLength || pattern.includes('{')))
    throw bad(`${shown(text)}: matches takes a text of ${maxPatternLength} characters at most, without {`)
  const test: Test = (bindings) => {
    try {
      return expression.evaluate(bindings(), new Steps(maxSteps)) === true
    } catch {
      return false // for example, a label that an object does not have
    }
  }
  return { test, names, weight: weight + patterns.length * patternWeight }
}

function readExpression(text: string): Expression {
  if (text.length > maxExpressionLength) throw bad(`an expression has ${maxExpressionLength} characters at most`)
  try {
    return new Expression(
      text.replace(reserved, (_, literal?: string) => literal ?? inPlaceOfReserved),
      maxDepth,
    )
  } catch (error) {
    throw bad(`${shown(text)}: ${(error as Error).message.slice(0, 200)}`)
  }
}

const shown = (text: string) => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}
