import { kindWord, namesKey } from '../../../../kubernetes/kind-words.ts'
import { printable } from '../../../../lib/printable.ts'
import { projectLabel, slugLabel } from '../../../../proto/marks.ts'
import type { Scope, ViewState } from '../../../../proto/views-json.ts'
import type { Asked } from './asked.ts'
import type { ShownView } from './shown-view.ts'

/** Groups of the caller that a text names; `kubectl auth whoami` lists all. */
const maxGroups = 2

/**
 * Returns sentences: reasons for which requested objects are not shown. An empty answer to a caller with permission is
 * no problem.
 */
export function problemsOf(model: ShownView, asked: Asked): string[] {
  const { state } = model
  return [
    ...(state.unknown ?? []).map(([word, nearest]) => unknownText(word, nearest)),
    ...notFollowed(state, asked.words),
    ...refusedTexts(state),
    ...missing(model, asked),
    ...(asked.query.filter ? [] : emptyGroup(model, asked.query.scope ?? {})),
  ].map(printable)
}

function unknownText(word: string, nearest: string): string {
  return `no kind is called "${word}", or none that you may list${nearest ? `; did you mean ${nearest}?` : ''}`
}

/** Returns the subject of a refusal, in the words of Kubernetes. */
export function youAre({ you }: ViewState): string {
  if (!you?.username) return 'you are let in as the agent itself, whose account'
  const more = you.groups.length - maxGroups
  const groups = you.groups.slice(0, maxGroups).join(', ')
  return `you are ${you.username}${groups && ` (groups ${groups}${more > 0 ? ` and ${more} more` : ''})`} and`
}

/** Permissions come from the cluster: kas grants none. */
function whomToAsk({ you }: ViewState): string {
  const who = you?.username ? 'for you, or for a group of yours' : "for agentk's account"
  return `ask an administrator of the cluster for a role ${who}`
}

function refusedTexts(state: ViewState): string[] {
  const byPlace = new Map<string, string[]>()
  for (const [plural, namespace] of state.refused ?? []) {
    const place = placeOf(plural, namespace)
    byPlace.set(place, [...(byPlace.get(place) ?? []), plural || 'anything'])
  }
  return [...byPlace].map(
    ([place, plurals]) => `${youAre(state)} may not list ${plurals.join(', ')}${place}: ${whomToAsk(state)}`,
  )
}

function placeOf(plural: string, namespace: string): string {
  if (namespace !== '') return ` in ${namespace}`
  const [kind] = kindWord(plural).builtIn
  return kind && !kind.isNamespaced ? '' : ' in any namespace'
}

function notFollowed(state: ViewState, words: readonly string[]): string[] {
  const left = state.notFollowed ?? []
  const { aside = [] } = state
  return left
    .filter((key) => words.some((word) => namesKey(word, key)))
    .map((key) => {
      const [, reason] = aside.find(([kind]) => kind === key) ?? []
      return reason === undefined
        ? `${key} is not followed by the agent: follow.kinds of its views.yaml, or its role, says which are`
        : `${key} cannot be listed: ${reason}`
    })
}

/** Lists named objects that no row shows; in a tree they may be below others. */
function missing(model: ShownView, { names, namespaces }: Asked): string[] {
  if (model.state.refused || model.state.unknown) return []
  const rows = [...model.rows.values()]
  const where = namespaces?.join(', ') ?? ''
  const isThere = (kind: string, name: string) =>
    rows.some((row) => row.n === name && (kindWord(kind).builtIn.length === 0 || namesKey(kind, row.k)))
  return names
    .filter(({ kind, name }) => !isThere(kind, name))
    .map(({ kind, name }) => `${kind}/${name} is not found${where && ` in ${where}`}`)
}

/** Describes an empty environment or application, and how objects become part of it. */
function emptyGroup(model: ShownView, { environment, application, namespaces }: Scope): string[] {
  if (model.rows.size > 0 || model.state.refused) return []
  const where = namespaces ? ` in ${namespaces.join(', ')}` : ''
  if (environment !== undefined) {
    const slash = environment.indexOf('/')
    const labels = `${projectLabel}=${environment.slice(0, slash)} ${slugLabel}=${environment.slice(slash + 1)}`
    return [
      `environment ${environment} has no objects that you may list${where}: of it is what bears both labels ${labels}, ` +
        `as kubectl -n NAMESPACE label deployment NAME ${labels} sets them, or what the directory file lists for it under environments`,
    ]
  }
  if (application === undefined) return []
  return [
    `application ${application} has no objects that you may list${where}: of it is what Flux, Argo CD or Helm deployed by that ` +
      'name, what a GitOps source of that name or inventory made, or what app.kubernetes.io/part-of, instance or name says; ' +
      'objects outside of its namespace are of it where its Kustomization, HelmRelease or Application lists them, or where -n names their namespace',
  ]
}
