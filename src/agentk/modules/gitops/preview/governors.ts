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
  /** the files do not have it any more */
  readonly hasLeft: boolean
}

/** Reason for which a refusal says nothing about the commit. */
export interface Excuse {
  /** for people */
  readonly text: string
  /** the refusing object has left Git: its deletion waits for approval */
  readonly hasLeft: boolean
}

export interface GovernorsInput {
  /** all manifests of the files */
  readonly manifests: readonly Manifest[]
  /** objects that differ from the commit in the cluster, or have left it */
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

  /** Returns why a refusal says nothing about the commit; undefined: it does. */
  excuse({ key }: Pick<Manifest, 'key'>, problem: ApplyProblem): Excuse | undefined {
    const definition = this.definitionOf(key)
    if (problem.kind === 'unserved') return definition && comes('the definition of its kind')
    if (problem.kind === 'absent') return this.#broughtFor(key, problem)
    if (problem.refuser !== undefined) return this.#refuserExcuse(problem.refuser, problem)
    const isOfDefinition = problem.kind === 'invalid' || problem.kind === 'immutable'
    if (!isOfDefinition || !definition || !this.#changed.has(keyText(definition.key))) return undefined
    return { text: 'the definition of its kind changes with it', hasLeft: false }
  }

  #broughtFor(key: ObjectKey, { lacks }: ApplyProblem): Excuse | undefined {
    if (this.definitionOf(key)) return comes('the definition of its kind')
    if (!lacks || lacks.resource === 'namespaces')
      return this.#namespaces.has(key.namespace) ? comes('its namespace') : undefined
    const isLacked = ({ key: one }: Manifest) =>
      one.name === lacks.name && [`${one.kind.toLowerCase()}s`, one.kind.toLowerCase()].includes(lacks.resource)
    return this.#input.manifests.some((manifest) => isLacked(manifest)) ? comes('what it needs') : undefined
  }

  #refuserExcuse(refuser: 'policy' | 'webhook', { text }: ApplyProblem): Excuse | undefined {
    const found = this.#input.changed.filter((one) => mayRefuse(one, text))
    if (found.length === 0) return undefined
    const hasLeft = found.some(({ hasLeft }) => hasLeft)
    return { text: `the ${refuser} that refuses it today changes with it`, hasLeft }
  }
}

function comes(what: string): Excuse {
  return { text: `${what} comes with the same change`, hasLeft: false }
}

/** True if the refusal may be by this policy, or by a webhook of this configuration. */
function mayRefuse({ key, objects }: ChangedObject, text: string): boolean {
  const kind = refuserOf(key)
  if (kind === undefined || kind === 'apiService') return false
  const [, policyName, bindingName] = policy.exec(text) ?? []
  if (policyName !== undefined) return key.name === (key.kind.endsWith('Binding') ? bindingName : policyName)
  const [, webhookName] = webhook.exec(text) ?? []
  if (webhookName === undefined) return true // the text does not name it
  if (kind === 'policy') return key.group !== admission // Kyverno and Gatekeeper act by webhooks of their own
  const names = objects.flatMap((object) => listAt(object, 'webhooks').map((one) => textField(one, 'name')))
  return names.length === 0 || names.includes(webhookName)
}

const admission = 'admissionregistration.k8s.io'

/** Returns the owners that a manifest names. */
export function ownersOf({ object, key: { namespace } }: Manifest): readonly ObjectKey[] {
  return listAt(object, 'metadata.ownerReferences').map((owner) => {
    const apiVersion = textField(owner, 'apiVersion')
    const slash = apiVersion.indexOf('/')
    const group = slash < 0 ? '' : apiVersion.slice(0, slash)
    return { group, kind: textField(owner, 'kind'), namespace, name: textField(owner, 'name') }
  })
}
