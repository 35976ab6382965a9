import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import { type Answers, everything, general } from './answers.ts'
import { eventKind } from './list-rights.ts'
import type { PresentKinds } from './present-kinds.ts'
import { listQuestion, type Question, rulesQuestion } from './review-question.ts'

/** Bound of namespaces about which a caller's rights are asked; if there are more, none is asked about. */
export const maxNamespacesAsked = 2000
/** In a scope of at most this many namespaces, each kind is asked about, even before there are objects. */
const maxScopeAskedWhole = 20

/** Maximum number of namespaces outside a scope with questions about what serves webhooks and APIServices. */
const maxServingAsked = 20

/** Rights that one view needs. */
export interface Wanted {
  readonly what: 'objects' | 'events'
  /** undefined: all namespaces */
  readonly namespaces: ReadonlySet<string> | undefined
  /** also cluster-scoped objects, if `namespaces` names some */
  readonly withCluster?: boolean
  /** old denials are asked again first */
  readonly isFresh?: boolean
}

export interface ReviewPlan {
  readonly questions: readonly Question[]
  /** all of them were answered, and no others follow */
  readonly isWhole: boolean
  /** there are so many namespaces that none is asked about */
  readonly hasTooManyNamespaces: boolean
}

type KnownKinds = Pick<PresentKinds, 'kinds' | 'servingFor'>

interface KindWanted {
  readonly kind: ResourceKind
  readonly namespaces: readonly string[]
}

/** Plans the questions for these views, from the answers so far. */
export function planReviews(answers: Answers, present: KnownKinds, views: readonly Wanted[]): ReviewPlan {
  const isAnswered = (question: Question) => answers.get(question) !== undefined
  const few = { hasTooManyNamespaces: false }
  if (!isAnswered(everything) || answers.mayList(everything)) {
    return { questions: [everything], isWhole: isAnswered(everything), ...few }
  }
  if (!isAnswered(general)) return { questions: [everything, general], isWhole: false, ...few }
  const kinds = kindsWanted(answers, present, views)
  const inCluster = kinds.map(({ kind }) => kind).filter((kind) => !answers.isHidden(general, kind))
  const ofKinds = inCluster.map(({ group, plural }) => listQuestion(group, plural, ''))
  const byNamespace = kindsByNamespace(answers, kinds)
  const hasTooManyNamespaces = byNamespace.size > maxNamespacesAsked
  const inNamespaces = hasTooManyNamespaces ? [] : namespaceQuestions(answers, byNamespace)
  const questions = [everything, general, ...ofKinds, ...inNamespaces]
  return { questions, isWhole: questions.every(isAnswered), hasTooManyNamespaces }
}

/** Returns, by namespace, the kinds that are known not to be allowed in the whole cluster. */
function kindsByNamespace(
  answers: Answers,
  kinds: readonly KindWanted[],
): ReadonlyMap<string, readonly ResourceKind[]> {
  const byNamespace = new Map<string, ResourceKind[]>()
  for (const { kind, namespaces } of kinds) {
    const inCluster = listQuestion(kind.group, kind.plural, '')
    const isKnown = answers.get(inCluster) !== undefined || answers.isHidden(general, kind)
    if (!kind.isNamespaced || !isKnown || answers.mayList(inCluster)) continue
    for (const namespace of namespaces) {
      const known = byNamespace.get(namespace)
      if (known) known.push(kind)
      else byNamespace.set(namespace, [kind])
    }
  }
  return byNamespace
}

function namespaceQuestions(
  answers: Answers,
  byNamespace: ReadonlyMap<string, readonly ResourceKind[]>,
): readonly Question[] {
  const questions: Question[] = []
  for (const [namespace, some] of byNamespace) {
    const rules = some.length > 1 ? rulesQuestion(namespace) : undefined
    if (rules) questions.push(rules)
    if (rules && !answers.get(rules)) continue
    const asked = some.filter((kind) => !rules || !answers.isHidden(rules, kind))
    for (const { group, plural } of asked) questions.push(listQuestion(group, plural, namespace))
  }
  return questions
}

/** Returns kinds with the namespaces to ask about: those with objects, and each namespace of a small scope. */
function kindsWanted(answers: Answers, present: KnownKinds, views: readonly Wanted[]): KindWanted[] {
  const found: KindWanted[] = []
  // views of objects need events too: events show why an object is not well
  const [objects, all] = [scopeOf(views.filter(({ what }) => what === 'objects')), scopeOf(views)]
  const serving = objects.isShown && !objects.isOfAll ? servingNamespaces(answers, present) : []
  for (const { kind, namespaces } of present.kinds()) {
    const scope = kind.key === eventKind.key ? all : objects
    const isOfCluster = scope.isOfAll || scope.isOfCluster
    const isShown = kind.isNamespaced || foundations.has(kind.key) ? scope.isShown : isOfCluster
    const there = [...namespaces.keys()]
    const isIn = (one: string) => (kind.isNamespaced ? scope.isOfAll || scope.shows(one) : isOfCluster)
    const wanted = new Set(there.filter(isIn))
    if (kind.isNamespaced) for (const one of scope.askedWhole) wanted.add(one)
    if (servingKinds.has(kind.key)) for (const one of serving) wanted.add(one)
    const isWanted = wanted.size > 0 || (isShown && (there.length === 0 || foundations.has(kind.key)))
    wanted.delete('')
    if (isWanted) found.push({ kind, namespaces: [...wanted] })
  }
  return found
}

/** Cluster-scoped kinds that may be the reason why an object in a namespace is not well. */
const foundations: ReadonlySet<string> = new Set([
  'Node',
  'apiregistration.k8s.io/APIService',
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
  'admissionregistration.k8s.io/MutatingWebhookConfiguration',
  'networking.k8s.io/IngressClass',
  'storage.k8s.io/StorageClass',
])

/** Kinds that an APIService or a webhook depends on, in any namespace. */
const servingKinds: ReadonlySet<string> = new Set(['Service', 'Pod', 'discovery.k8s.io/EndpointSlice', eventKind.key])

/** Reads only objects that the caller may list: nothing hidden influences the questions. */
function servingNamespaces(answers: Answers, present: KnownKinds): readonly string[] {
  const found = new Set<string>()
  for (const { kind } of present.kinds()) {
    const isSeen = answers.mayList(listQuestion(kind.group, kind.plural, '')) && !answers.isHidden(general, kind)
    if (foundations.has(kind.key) && isSeen) for (const one of present.servingFor(kind)) found.add(one)
  }
  return [...found].sort().slice(0, maxServingAsked)
}

/** Union of the scopes of views: of all views, or of those of objects. */
interface Scope {
  readonly isShown: boolean
  /** one view shows all namespaces */
  readonly isOfAll: boolean
  /** one view shows cluster-scoped objects */
  readonly isOfCluster: boolean
  /** namespaces of small scopes */
  readonly askedWhole: ReadonlySet<string>
  readonly shows: (namespace: string) => boolean
}

function scopeOf(showing: readonly Wanted[]): Scope {
  const scopes = showing.flatMap(({ namespaces }) => namespaces ?? [])
  const known = new Map<string, boolean>()
  const find = (namespace: string) => {
    const found = scopes.some((scope) => scope.has(namespace))
    known.set(namespace, found)
    return found
  }
  return {
    isShown: showing.length > 0,
    isOfAll: scopes.length < showing.length,
    isOfCluster: showing.some(({ withCluster }) => withCluster),
    askedWhole: new Set(scopes.filter(({ size }) => size <= maxScopeAskedWhole).flatMap((scope) => [...scope])),
    shows: (namespace) => known.get(namespace) ?? find(namespace),
  }
}
