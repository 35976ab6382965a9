import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'

const data = 'the data of its volume is lost unless the reclaim policy of the volume is Retain'
const pods = 'its Pods go with it unless prune_propagation_policy is orphan'

/** By `kindKey`. */
const losses: Readonly<Record<string, string>> = {
  PersistentVolumeClaim: data,
  PersistentVolume: 'its data is lost unless its reclaim policy is Retain',
}
const lossesOfReplaced: Readonly<Record<string, string>> = {
  ...losses,
  'apps/DaemonSet': pods,
  'apps/Deployment': pods,
  'apps/ReplicaSet': pods,
  'apps/StatefulSet': `${pods}, and its claims if persistentVolumeClaimRetentionPolicy.whenDeleted is Delete`,
  'batch/Job': pods,
}

/** Returns what is lost with a deleted object, by its kind; empty: nothing else. */
export function lossOf({ group, kind }: Pick<ObjectKey, 'group' | 'kind'>): string {
  return losses[kindKey(group, kind)] ?? ''
}

/** Returns the same for an object that is made again at once. */
export function lossOfReplaced({ group, kind }: Pick<ObjectKey, 'group' | 'kind'>): string {
  return lossesOfReplaced[kindKey(group, kind)] ?? ''
}

/** Returns `text`, with what is lost. */
export function withLoss(text: string, loss: string): string {
  return loss === '' ? text : `${text}; ${loss}`
}
