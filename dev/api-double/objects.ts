import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import {
  changedFields,
  type FieldSet,
  fieldsOf,
  joinedFields,
  presentFields,
  subtractFields,
  withoutFields,
} from './field-sets.ts'
import { asRecord, type KubeObject, type Metadata } from './kube-object.ts'
import { mergePatch } from './merge-patch.ts'
import type { RequestTarget } from './request-target.ts'
import { apiVersionOf, type Resource, resources } from './resources.ts'
import { named } from './seed.ts'
import { StatusError } from './status-error.ts'
import type { Store } from './store.ts'

/** Names that Kubernetes accepts (RFC 1123 subdomains). */
const namePattern = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
/** Its content may be YAML in general; the double accepts JSON, which is YAML. */
export const applyType = 'application/apply-patch+yaml'
const mergeTypes = ['application/merge-patch+json', 'application/strategic-merge-patch+json']

export interface Write {
  readonly target: RequestTarget
  readonly contentType: string
  readonly body: unknown
}

/** Creates, replaces, patches and deletes single objects in a store. `dryRun=All` changes nothing. */
export class Objects {
  readonly #store: Store
  readonly #suffix: () => string

  /** @param suffix - generates the end of a name */
  constructor(store: Store, suffix = () => randomBytes(3).toString('hex').slice(0, 5)) {
    this.#store = store
    this.#suffix = suffix
  }

  /** @throws StatusError 400, 404, 409, 422, 429 */
  create({ target, body }: Write): KubeObject {
    const object = checked(target.resource, body)
    const { name: given, generateName } = object.metadata
    const name = given || (generateName ? `${generateName}${this.#suffix()}` : '')
    if (!namePattern.test(name)) throw invalidName(target.resource, name)
    const namespace = this.#namespace(target, object.metadata)
    const key = { resource: target.resource, namespace, name }
    if (!given && this.#store.has(key)) return this.create({ target, contentType: '', body }) // as an API server does
    if (isDryRun(target))
      return { ...object, metadata: { ...object.metadata, name, ...(namespace ? { namespace } : {}) } }
    return this.#store.create(key, completed(target.resource, name, object))
  }

  /** @throws StatusError 400, 404, 409 */
  replace({ target, body }: Write): KubeObject {
    const object = checked(target.resource, body)
    if (object.metadata.name !== target.name) {
      throw new StatusError(400, 'the name of the object does not match the name on the URL')
    }
    const { managedFields } = this.#store.get(keyOf(target)).metadata
    return this.#replace(target, this.#owned(target, { ...object, metadata: { managedFields, ...object.metadata } }))
  }

  has(target: RequestTarget): boolean {
    return this.#store.has(keyOf(target))
  }

  /**
   * Applies server-side apply, JSON merge patches, and the same part of strategic ones.
   *
   * @throws StatusError 400, 404, 409, 415, 422
   */
  patch({ target, body, contentType }: Write): KubeObject {
    const type = contentType.split(';')[0]?.trim() ?? ''
    if (type === applyType) return this.#apply(target, checked(target.resource, body))
    if (!mergeTypes.includes(type)) {
      const known = [...mergeTypes, applyType].join(', ')
      throw new StatusError(415, `the API double takes no patch of type ${JSON.stringify(type)}, but ${known}`)
    }
    if (!asRecord(body)) throw new StatusError(400, 'a patch is a JSON object')
    const merged = checked(target.resource, mergePatch(this.#store.get(keyOf(target)), body))
    if (merged.metadata.name !== target.name) throw new StatusError(400, 'a patch cannot change the name')
    return this.#replace(target, this.#owned(target, merged))
  }

  /** @throws StatusError 404, 409 if a precondition does not hold */
  delete({ target, body }: Write): Record<string, unknown> {
    const { metadata } = this.#store.get(keyOf(target))
    const preconditions = asRecord(asRecord(body)?.preconditions)
    for (const field of ['uid', 'resourceVersion'] as const) {
      const wanted = preconditions?.[field]
      if (wanted && wanted !== metadata[field]) {
        throw new StatusError(409, `the ${field} in the precondition (${wanted}) does not match (${metadata[field]})`)
      }
    }
    if (!isDryRun(target)) this.#delete(target)
    const { name, group } = target.resource
    const details = { name: target.name, ...(group ? { group } : {}), kind: name, uid: metadata.uid }
    return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }
  }

  /** Deletes an object; with a namespace its content is deleted, too. */
  #delete(target: RequestTarget): void {
    this.#store.delete(keyOf(target))
    if (target.resource.kind !== 'Namespace') return
    for (const resource of resources.filter(({ namespaced }) => namespaced)) {
      for (const { metadata } of this.#store.list(resource, target.name)) {
        this.#store.delete({ resource, namespace: target.name, name: metadata.name })
      }
    }
  }

  /** Gives the fields of an applied object that a write changes to its manager. A write of owners stays as it is. */
  #owned({ resource, namespace, name, query }: RequestTarget, next: KubeObject): KubeObject {
    const current = this.#store.get(keyOf({ resource, namespace, name, query } as RequestTarget))
    const entries = ownersOf(current)
    const changed = changedFields(current, next)
    const isOfOwners = !isDeepStrictEqual(entries, ownersOf(next))
    if (entries.length === 0 || isOfOwners || Object.keys(changed).length === 0) return next
    const manager = query.get('fieldManager') || 'unknown'
    const isOwn = (entry: Owner) => entry.manager === manager && entry.operation === 'Update'
    const others = entries.filter((entry) => !isOwn(entry)).map((entry) => lackingFields(entry, changed))
    const fieldsV1 = joinedFields(entries.find(isOwn)?.fieldsV1 ?? {}, presentFields(changed, next))
    const time = `${new Date().toISOString().slice(0, 19)}Z`
    const own = {
      manager,
      operation: 'Update',
      apiVersion: apiVersionOf(resource),
      time,
      fieldsType: 'FieldsV1',
      fieldsV1,
    }
    return { ...next, metadata: { ...next.metadata, managedFields: [...others, own] } }
  }

  /** Applies with one manager an object, as with force: it takes fields back from those that have changed them. */
  #apply(target: RequestTarget, applied: KubeObject): KubeObject {
    const { resource, namespace, name = '' } = target
    const manager = target.query.get('fieldManager')
    if (!manager) throw new StatusError(400, 'fieldManager is required for an apply')
    if (applied.metadata.name !== name) throw new StatusError(400, 'the name of the object is not the one on the URL')
    const { resourceVersion, ...metadata } = applied.metadata
    const fieldsV1 = fieldsOf(applied)
    const entry = { manager, operation: 'Apply', apiVersion: apiVersionOf(resource), fieldsType: 'FieldsV1', fieldsV1 }
    if (!this.has(target)) {
      this.#namespace(target, metadata)
      const object = { ...applied, metadata: { ...metadata, managedFields: [entry] } }
      const made = completed(resource, name, object)
      return isDryRun(target) ? made : this.#store.create({ resource, namespace, name }, made)
    }
    const current = this.#store.get(keyOf(target))
    const isMeant = resourceVersion === undefined || resourceVersion === current.metadata.resourceVersion
    if (!isMeant) return this.#store.replace(keyOf(target), applied) // replace refuses it
    const entries = ownersOf(current)
    const own = entries.find(({ operation }) => operation === 'Apply')
    if (own?.manager !== manager) {
      const owner = own ? `is ${own.manager}'s` : 'has not been made by an apply'
      throw new StatusError(422, `the API double keeps one field manager an object: ${resource.kind} ${name} ${owner}`)
    }
    const merged = mergePatch(withoutFields(current, own.fieldsV1, fieldsV1), { ...applied, metadata }) as KubeObject
    const others = entries.flatMap((one) => (one === own ? [] : [lackingFields(one, fieldsV1)]))
    const managedFields = [entry, ...others.filter((one) => Object.keys(one.fieldsV1).length > 0)]
    const object = { ...merged, metadata: { ...merged.metadata, managedFields } }
    return isDeepStrictEqual(object, current) ? current : this.#replace(target, object)
  }

  #replace(target: RequestTarget, object: KubeObject): KubeObject {
    this.#namespace(target, object.metadata)
    return isDryRun(target) ? object : this.#store.replace(keyOf(target), object)
  }

  /** Returns the namespace of the path, after a check that it exists and that the object names no other. */
  #namespace({ resource, namespace }: RequestTarget, metadata: Metadata): string | undefined {
    if (!resource.namespaced) return undefined
    if (namespace === undefined) throw new StatusError(405, `${resource.name} are created in a namespace`)
    if (metadata.namespace && metadata.namespace !== namespace) {
      throw new StatusError(400, 'the namespace of the object does not match the namespace on the request')
    }
    this.#store.get({ resource: named('namespaces'), name: namespace })
    return namespace
  }
}

/** Entry of `metadata.managedFields`. */
interface Owner {
  readonly manager: string
  readonly operation: string
  readonly fieldsV1: FieldSet
}

function ownersOf({ metadata }: KubeObject): readonly Owner[] {
  return (metadata.managedFields ?? []) as Owner[]
}

function lackingFields(entry: Owner, gone: FieldSet): Owner {
  return { ...entry, fieldsV1: subtractFields(entry.fieldsV1, gone) }
}

/** Completes a namespace, which is active at once and has its name as label. */
function completed(resource: Resource, name: string, object: KubeObject): KubeObject {
  if (resource.kind !== 'Namespace') return object
  const labels = { ...object.metadata.labels, 'kubernetes.io/metadata.name': name }
  return { ...object, metadata: { ...object.metadata, labels }, status: { phase: 'Active' } }
}

function keyOf({ resource, namespace, name = '' }: RequestTarget) {
  return { resource, namespace, name }
}

function isDryRun({ query }: RequestTarget): boolean {
  return query.getAll('dryRun').includes('All')
}

/** Returns an object of the resource's kind, with metadata. @throws StatusError 400 */
function checked(resource: Resource, body: unknown): KubeObject {
  const object = asRecord(body)
  const metadata = asRecord(object?.metadata)
  if (!object || !metadata) throw new StatusError(400, 'the body is no Kubernetes object')
  const { kind = resource.kind, apiVersion = apiVersionOf(resource) } = object
  if (kind !== resource.kind || apiVersion !== apiVersionOf(resource)) {
    throw new StatusError(
      400,
      `the body is of ${apiVersion}, ${kind}; this path takes ${apiVersionOf(resource)}, ${resource.kind}`,
    )
  }
  for (const field of ['name', 'namespace', 'generateName', 'resourceVersion']) {
    if (!['string', 'undefined'].includes(typeof metadata[field]))
      throw new StatusError(400, `metadata.${field} is no text`)
  }
  return object as unknown as KubeObject
}

function invalidName(resource: Resource, name: string): StatusError {
  const text = `${resource.kind} ${JSON.stringify(name)} is invalid: metadata.name: a lowercase RFC 1123 subdomain is needed`
  return new StatusError(422, text, { details: { name, kind: resource.kind } })
}
