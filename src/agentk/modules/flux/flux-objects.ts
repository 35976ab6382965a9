/** Fields of Flux's objects that agentk reads. agentk keeps no other field. */

export interface GitRepository {
  /** `namespace/name` */
  readonly key: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
  readonly url: string
}

export interface Receiver {
  /** `namespace/name` */
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** sender: `generic`, `gitlab`, ... */
  readonly type: string
  readonly isSuspended: boolean
  /** a secret; empty: Flux has not set it yet */
  readonly webhookPath: string
  /** Flux reports that the webhook cannot be called, for example because its Secret is missing */
  readonly isBroken: boolean
  /** `app.kubernetes.io/managed-by: gitlab`: an agentk made it */
  readonly isManaged: boolean
  /** uid of its controller; empty: no controller */
  readonly ownerUid: string
  /** `agent.gitlab.com/project`: full path; empty: not set */
  readonly project: string
  readonly secretName: string
  readonly interval: string
  readonly resources: readonly { readonly kind: string; readonly name: string; readonly namespace: string }[]
}

export const managedByKey = 'app.kubernetes.io/managed-by'
export const managedByValue = 'gitlab'
export const projectKey = 'agent.gitlab.com/project'

type Fields = Readonly<Record<string, unknown>>

/** @returns undefined: the object has no name or no namespace */
export function readGitRepository(object: unknown): GitRepository | undefined {
  const place = readPlace(object)
  return place && { ...place, uid: text(fields(object, 'metadata').uid), url: text(fields(object, 'spec').url) }
}

/** @returns undefined: the object has no name or no namespace */
export function readReceiver(object: unknown): Receiver | undefined {
  const place = readPlace(object)
  if (!place) return undefined
  const metadata = fields(object, 'metadata')
  const spec = fields(object, 'spec')
  const status = fields(object, 'status')
  const annotations = fields(metadata, 'annotations')
  return {
    ...place,
    type: text(spec.type),
    isSuspended: spec.suspend === true,
    webhookPath: text(status.webhookPath) || text(status.url), // `url` in v1beta1
    isBroken: list(status.conditions).some(({ type, status: is }) => type === 'Ready' && is === 'False'),
    isManaged: annotations[managedByKey] === managedByValue,
    ownerUid: text(list(metadata.ownerReferences).find(({ controller }) => controller === true)?.uid),
    project: text(annotations[projectKey]),
    secretName: text(fields(spec, 'secretRef').name),
    interval: text(spec.interval),
    resources: list(spec.resources).map(({ kind, name, namespace }) => ({
      kind: text(kind),
      name: text(name),
      namespace: text(namespace) || place.namespace,
    })),
  }
}

function readPlace(object: unknown) {
  const metadata = fields(object, 'metadata')
  const [namespace, name] = [text(metadata.namespace), text(metadata.name)]
  return name && namespace ? { key: `${namespace}/${name}`, namespace, name } : undefined
}

function fields(object: unknown, name: string): Fields {
  const value = isFields(object) ? object[name] : undefined
  return isFields(value) ? value : {}
}

function list(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.filter(isFields) : []
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
