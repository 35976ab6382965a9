import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'
import { listAt, textAt, textField } from '../../../../kubernetes/object.ts'
import type { ApplyProblem } from '../live/refusal.ts'
import { refuserOf } from '../manifests/kind-ranks.ts'
import type { Manifest, ObjectTree } from '../manifests/manifest.ts'
import { isDefinition, isNamespace } from '../manifests/parents.ts'

/**
 * Objects of the change by which the API server decides on others: namespaces, definitions, policies and webhooks. A dry
 * run meets their earlier state, so a refusal by one of them says nothing about the commit.
 */

/** Object that is new, changed or gone in Git. */
export interface ChangedObject {
  readonly key: ObjectKey
  /** earlier and new content, as far as it is known */
  readonly objects: readonly ObjectTree[]
}

export interface GovernorsInput {
  /** all manifests of the files */
  readonly manifests: readonly Manifest[]
  /** those that differ from the cluster's commit, and those that have left it */
  readonly changed: readonly ChangedObject[]
}

/** Policy with its binding, as the API server names them in a refusal. */
const policy = /AdmissionPolicy '([^'\n]*)' with binding '([^'\n]*)'/
/** webhook of a configuration */
const webhook = /(?:admission|failed calling) webhook "([^"\n]*)"/

export class Governors {
  readonly #input: GovernorsInput
  /** by `kindKey` of the kinds that definitions among the files define */
  readonly #defined: ReadonlyMap<string, { readonly key: ObjectKey; readonly plural: string }>
  readonly #changed: ReadonlySet<string>
  readonly #namespaces: ReadonlySet<string>

  constructor(input: GovernorsInput) {
    this.#input = input
    this.#changed = new Set(input.changed.map(({ key }) => keyText(key)))
    this.#namespaces = new Set(input.manifests.flatMap(({ key }) => (isNamespace(key) ? [key.name] : [])))
    const definitions = input.manifests.filter(({ key }) => isDefinition(key))
    this.#defined = new Map(
      definitions.map(({ key, object }) => {
        const [group, kind] = [textAt(object, 'spec.group'), textAt(object, 'spec.names.kind')]
        return [kindKey(group, kind), { key, plural: textAt(object, 'spec.names.plural') }]
      }),
    )
  }

  /** Returns the definition of a kind among the files. */
  definitionOf({ group, kind }: Pick<ObjectKey, 'group' | 'kind'>): { key: ObjectKey; plural: string } | undefined {
    return this.#defined.get(kindKey(group, kind))
  }

  /** Returns why a refusal says nothing about the commit, for people; undefined: it does. */
  excuse({ key }: Pick<Manifest, 'key'>, problem: ApplyProblem): string | undefined {
    const definition = this.definitionOf(key)
    if (problem.kind === 'unserved') return definition && 'the definition of its kind comes with the same change'
    if (problem.kind === 'absent') return this.#broughtFor(key, problem)
    if (problem.refuser !== undefined)
      return this.#isRefuserChanged(problem)
        ? `${refusers[problem.refuser]} that refuses it today changes with it`
        : undefined
    const isOfDefinition = problem.kind === 'invalid' || problem.kind === 'immutable'
    if (isOfDefinition && definition && this.#changed.has(keyText(definition.key)))
      return 'the definition of its kind changes with it'
    return undefined
  }

  #broughtFor(key: ObjectKey, { lacks }: ApplyProblem): string | undefined {
    if (this.definitionOf(key)) return 'the definition of its kind comes with the same change'
    if (lacks && lacks.resource !== 'namespaces') {
      const isLacked = ({ key: one }: Manifest) =>
        one.name === lacks.name && [`${one.kind.toLowerCase()}s`, one.kind.toLowerCase()].includes(lacks.resource)
      return this.#input.manifests.some(isLacked) ? 'what it needs comes with the same change' : undefined
    }
    return this.#namespaces.has(key.namespace) ? 'its namespace comes with the same change' : undefined
  }

  #isRefuserChanged({ text }: ApplyProblem): boolean {
    const [, policyName, bindingName] = policy.exec(text) ?? []
    const [, webhookName] = webhook.exec(text) ?? []
    return this.#input.changed.some(({ key, objects }) => {
      const refuser = refuserOf(key)
      if (refuser === undefined || refuser === 'apiService') return false
      if (policyName !== undefined) return key.name === (key.kind.endsWith('Binding') ? bindingName : policyName)
      if (webhookName === undefined) return true // the text does not name it
      if (refuser === 'policy') return key.group !== admission // Kyverno and Gatekeeper act by webhooks of their own
      const names = objects.flatMap((object) => listAt(object, 'webhooks').map((one) => textField(one, 'name')))
      return names.length === 0 || names.includes(webhookName)
    })
  }
}

const admission = 'admissionregistration.k8s.io'
const refusers = { policy: 'the policy', webhook: 'the webhook' } as const

/** Returns the owners that a manifest names. */
export function ownersOf({ object, key: { namespace } }: Manifest): readonly ObjectKey[] {
  return listAt(object, 'metadata.ownerReferences').map((owner) => {
    const apiVersion = textField(owner, 'apiVersion')
    const slash = apiVersion.indexOf('/')
    const group = slash < 0 ? '' : apiVersion.slice(0, slash)
    return { group, kind: textField(owner, 'kind'), namespace, name: textField(owner, 'name') }
  })
}
