import { createHash, randomBytes } from 'node:crypto'
import type { Apis } from './flux-apis.ts'
import { type GitRepository, managedByKey, managedByValue, projectKey, type Receiver } from './flux-objects.ts'
import { names } from './receiver-choice.ts'

/** Receiver and Secret that agentk makes for a GitRepository. Only the token differs from the stock agentk's. */

const agentIdKey = 'agent.gitlab.com/id'
const namePrefix = 'gitlab-'
const secretPrefix = 'gitlab-receiver-'
/** Limit of a Receiver's name: Flux uses it as a label value. Characters */
const maxReceiverName = 63
/** Limit of a Secret's name in Kubernetes. Characters */
const maxSecretName = 253
/** Interval at which Flux reads the Secret again, in Go's format. */
const interval = '5m0s'
const tokenBytes = 32

export interface Wanted {
  readonly repository: GitRepository
  /** full path */
  readonly project: string
  readonly agentId: bigint
  readonly apis: Apis
}

/** @param isTaken - another owner's Receiver has the usual name */
export function receiverName({ name }: GitRepository, isTaken = false): string {
  return prefixed(namePrefix, name, maxReceiverName, isTaken)
}

export function secretName({ name }: GitRepository): string {
  return prefixed(secretPrefix, name, maxSecretName)
}

export function receiverManifest(wanted: Wanted, receiver = receiverName(wanted.repository)): object {
  const { repository, project, apis } = wanted
  const { name, namespace } = repository
  return {
    apiVersion: apis.receivers,
    kind: 'Receiver',
    metadata: metadata(receiver, wanted, { [projectKey]: project }),
    spec: {
      type: 'generic',
      interval,
      resources: [{ kind: 'GitRepository', name, namespace }],
      secretRef: { name: secretName(repository) },
    },
  }
}

/** Flux derives the webhook's path from the token: a random one makes it secret. The stock agentk's token is empty. */
export function secretManifest(wanted: Wanted): object {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: metadata(secretName(wanted.repository), wanted),
    type: 'Opaque',
    stringData: { token: randomBytes(tokenBytes).toString('hex') },
  }
}

/** True if the Receiver is as agentk makes it. The agent's id may differ: two agents of one cluster share it. */
export function isAsWanted(receiver: Receiver, { repository, project }: Wanted): boolean {
  return (
    receiver.type === 'generic' &&
    receiver.project === project &&
    receiver.secretName === secretName(repository) &&
    receiver.resources.length === 1 &&
    names(receiver, repository)
  )
}

/** Sets no `blockOwnerDeletion`: some clusters allow it only to users who may change finalizers. */
function metadata(name: string, { repository, agentId, apis }: Wanted, annotations = {}): object {
  const { namespace, name: ownerName, uid } = repository
  const owner = { apiVersion: apis.repositories, kind: 'GitRepository', name: ownerName, uid, controller: true }
  return {
    name,
    namespace,
    annotations: { [managedByKey]: managedByValue, [agentIdKey]: String(agentId), ...annotations },
    ownerReferences: [owner],
  }
}

/** Joins prefix and name. A name that is too long or taken ends with a digest, so that names stay distinct. */
function prefixed(prefix: string, name: string, max: number, isTaken = false): string {
  const whole = prefix + name
  if (whole.length <= max && !isTaken) return whole
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 10)
  return `${whole.slice(0, max - digest.length - 1).replace(/[^a-z0-9]+$/, '')}-${digest}`
}
