import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { listAt } from '../../../../kubernetes/object.ts'
import type { Caller } from '../../../caller.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import { isNamespace } from '../manifests/parents.ts'
import type { AskedVerb, ObjectRights, Subject } from '../state/object-rights.ts'

/** Limit of kinds and namespaces that one preview asks about; objects of others are not compared. */
const maxSubjects = 500
/** Limit of namespaces whose rules are read for names that the caller may get. */
const maxRulesNamespaces = 10
/** Limit of objects that are asked about by their names. */
const maxNamed = 100

export interface CallerViewComponents {
  readonly rights: Pick<ObjectRights, 'may' | 'rules'>
  /** kinds of the build */
  readonly kinds: Pick<ClusterKinds, 'find'>
  /** plural that a definition among the files gives a kind that nobody serves yet */
  readonly pluralOf: (key: ObjectKey) => string | undefined
}

/**
 * Decides which objects a preview compares for a caller. Only rights of the caller count, so what the cluster has makes
 * no difference.
 */
export class CallerView {
  readonly #components: CallerViewComponents
  readonly #caller: Caller
  readonly #headers: readonly string[]
  /** by verb and subject */
  readonly #answers = new Map<string, boolean>()
  readonly #asked = new Set<string>()
  #isCut = false

  /** @param of.headers - of all its requests: name, value, name, value */
  constructor(
    components: CallerViewComponents,
    { caller, headers }: { readonly caller: Caller; readonly headers: readonly string[] },
  ) {
    this.#components = components
    this.#caller = caller
    this.#headers = headers
  }

  /** Why some objects count as those that the caller may not get; empty: all were asked about. */
  get unasked(): string {
    return this.#isCut
      ? `rights are asked about ${maxSubjects} kinds and namespaces, and ${maxNamed} names, at most`
      : ''
  }

  /** Returns the objects, by `keyText`, that the caller may get. @throws as `ObjectRights.may` */
  async visible(keys: readonly ObjectKey[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const found = await this.#may('get', keys, signal)
    const denied = keys.filter((key) => !found.has(keyText(key)) && !isNamespace(key))
    for (const text of await this.#byName(denied, signal)) found.add(text)
    return found
  }

  /** Returns the objects that the caller may patch. @throws as `ObjectRights.may` */
  async patchable(keys: readonly ObjectKey[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    return await this.#may('patch', keys, signal)
  }

  async #may(verb: AskedVerb, keys: readonly ObjectKey[], signal: AbortSignal): Promise<Set<string>> {
    const subjects = new Map(keys.map((key) => [subjectText(verb, this.#subject(key)), this.#subject(key)]))
    const open = [...subjects].filter(([text]) => !this.#answers.has(text))
    const asked = open.slice(0, Math.max(0, maxSubjects - this.#asked.size))
    if (verb === 'get' && asked.length < open.length) this.#isCut = true
    for (const [text] of asked) this.#asked.add(text)
    const answers = await this.#components.rights.may(
      verb,
      this.#caller,
      asked.map(([, subject]) => subject),
      signal,
      this.#headers,
    )
    for (const [i, [text]] of asked.entries()) this.#answers.set(text, answers[i] === true)
    const isAllowed = (key: ObjectKey) => this.#answers.get(subjectText(verb, this.#subject(key))) === true
    return new Set(keys.filter(isAllowed).map(keyText))
  }

  /** Returns those that the caller may get by their names alone. */
  async #byName(denied: readonly ObjectKey[], signal: AbortSignal): Promise<readonly string[]> {
    const namespaces = [...new Set(denied.map(({ namespace }) => namespace || anyNamespace))]
    const candidates: ObjectKey[] = []
    for (const namespace of namespaces.slice(0, maxRulesNamespaces)) {
      const rules = await this.#components.rights.rules(this.#caller, namespace, signal, this.#headers)
      const isNamed = namedBy(rules)
      const own = denied.filter((key) => (key.namespace || anyNamespace) === namespace)
      candidates.push(...own.filter((key) => isNamed(this.#subject(key), key.name)))
    }
    const asked = candidates.slice(0, maxNamed)
    if (asked.length < candidates.length) this.#isCut = true
    const named = asked.map((key) => ({ ...this.#subject(key), name: key.name }))
    const answers = await this.#components.rights.may('get', this.#caller, named, signal, this.#headers)
    return asked.flatMap((key, i) => (answers[i] ? [keyText(key)] : []))
  }

  /** A namespace is asked about by its name, as roles in it may allow that. */
  #subject(key: ObjectKey): Subject & { readonly plural: string } {
    const { group, kind, namespace, name } = key
    // a definition among the files must not rename a kind that is served
    const plural = this.#components.kinds.find(key)?.plural ?? this.#components.pluralOf(key) ?? '*'
    return isNamespace(key) ? { group, kind, namespace: name, plural, name } : { group, kind, namespace, plural }
  }
}

/** Rules of any namespace have those for objects without one. */
const anyNamespace = 'default'

function subjectText(verb: AskedVerb, subject: Subject): string {
  return JSON.stringify([verb, subject])
}

/** @param review - a SelfSubjectRulesReview. @returns true for objects that a rule names */
function namedBy(review: unknown): (subject: { group: string; plural: string }, name: string) => boolean {
  const names = new Map<string, Set<string>>()
  for (const rule of listAt(review, 'status.resourceRules')) {
    if (!textsOf(rule.verbs).some((verb) => verb === 'get' || verb === '*')) continue
    for (const group of textsOf(rule.apiGroups)) {
      for (const resource of textsOf(rule.resources)) {
        const key = `${group}/${resource}`
        const known = names.get(key) ?? new Set()
        for (const name of textsOf(rule.resourceNames)) known.add(name)
        names.set(key, known)
      }
    }
  }
  return ({ group, plural }, name) =>
    [group, '*'].some((one) => [plural, '*'].some((resource) => names.get(`${one}/${resource}`)?.has(name) === true))
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []
}
