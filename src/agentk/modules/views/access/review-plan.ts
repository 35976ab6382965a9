import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import { type Answers, everything, general } from './answers.ts'
import { eventKind } from './list-rights.ts'
import type { PresentKinds } from './present-kinds.ts'
import { listQuestion, type Question, rulesQuestion } from './review-question.ts'

export const maxNamespacesAsked = 2000
/** Namespaces of a scope, in which each kind is asked for. */
const maxScopeAskedWhole = 20

/** Namespaces out of a scope, in which what answers for a webhook or an APIService is asked for. */
const maxServingAsked = 20

/** What a view shows. */
export interface Wanted {
  readonly what: 'objects' | 'events'
  /** undefined: all */
  readonly namespaces: ReadonlySet<string> | undefined
  /** and what is in none, where these are not all */
  readonly withCluster?: boolean
  /** what was denied a while ago is asked anew first */
  readonly isFresh?: boolean
}

export interface ReviewPlan {
  readonly questions: readonly Question[]
  /** all of them were answered, and no others follow */
  readonly isWhole: boolean
  /** so many that none is asked about */
  readonly hasTooManyNamespaces: boolean
}

type KnownKinds = Pick<PresentKinds, 'kinds' | 'servingFor'>

interface KindWanted {
  readonly kind: ResourceKind
  readonly namespaces: readonly string[]
}

/** What is to be asked for the sake of these views, after what was answered. */
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

/** Kinds that are known not to be allowed in the whole cluster. */
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

/** With the namespaces to ask about: where there are any; and those of a small scope, before there are. */
function kindsWanted(answers: Answers, present: KnownKinds, views: readonly Wanted[]): KindWanted[] {
  const found: KindWanted[] = []
  // events say why objects are not well, too
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

/** What is in no namespace and may be why something in one is not well. */
const foundations: ReadonlySet<string> = new Set([
  'Node',
  'apiregistration.k8s.io/APIService',
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
  'admissionregistration.k8s.io/MutatingWebhookConfiguration',
  'networking.k8s.io/IngressClass',
  'storage.k8s.io/StorageClass',
])

/** By which an APIService or a webhook answers, or does not, in whatever namespace. */
const servingKinds: ReadonlySet<string> = new Set(['Service', 'Pod', 'discovery.k8s.io/EndpointSlice', eventKind.key])

/** Of what the caller may list alone: nothing else has a say in what is asked for him. */
function servingNamespaces(answers: Answers, present: KnownKinds): readonly string[] {
  const found = new Set<string>()
  for (const { kind } of present.kinds()) {
    const isSeen = answers.mayList(listQuestion(kind.group, kind.plural, '')) && !answers.isHidden(general, kind)
    if (foundations.has(kind.key) && isSeen) for (const one of present.servingFor(kind)) found.add(one)
  }
  return [...found].sort().slice(0, maxServingAsked)
}

/** Of all views, or of all but those of events. */
interface Scope {
  readonly isShown: boolean
  /** one of them shows all namespaces */
  readonly isOfAll: boolean
  /** one of them shows what is in none */
  readonly isOfCluster: boolean
  /** namespaces of small ones */
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
