import type { ObjectRecord } from '../../../src/agentk/modules/views/store/record.ts'
import type { ResourceKind } from '../../../src/kubernetes/kind.ts'
import type { ArgoWord } from '../../../src/proto/views-json.ts'

export function kindOf(key: string, plural: string, isNamespaced = true): ResourceKind {
  const slash = key.indexOf('/')
  return { key, group: slash < 0 ? '' : key.slice(0, slash), version: 'v1', plural, isNamespaced }
}

export const kinds = {
  pod: kindOf('Pod', 'pods'),
  service: kindOf('Service', 'services'),
  configMap: kindOf('ConfigMap', 'configmaps'),
  claim: kindOf('PersistentVolumeClaim', 'persistentvolumeclaims'),
  node: kindOf('Node', 'nodes', false),
  deployment: kindOf('apps/Deployment', 'deployments'),
  replicaSet: kindOf('apps/ReplicaSet', 'replicasets'),
  statefulSet: kindOf('apps/StatefulSet', 'statefulsets'),
} as const

export type RecordParts = Partial<Omit<ObjectRecord, 'health' | 'owner'>> & {
  readonly uid: string
  readonly owner?: ObjectRecord['owner'] | ObjectRecord
  readonly verdict?: ArgoWord
}

export function recordOf({ owner, verdict, ...parts }: RecordParts): ObjectRecord {
  return {
    name: parts.uid,
    namespace: 'shop',
    kind: kinds.pod,
    labels: new Map(),
    otherOwners: [],
    customParent: undefined,
    created: 1,
    generation: 0,
    node: '',
    facts: [],
    selector: undefined,
    references: [],
    traits: undefined,
    environment: '',
    application: '',
    claim: undefined,
    owner: owner && {
      uid: owner.uid,
      kind: typeof owner.kind === 'string' ? owner.kind : owner.kind.key,
      name: owner.name,
    },
    health: verdict === undefined ? undefined : { argo: verdict, kstatus: 'Current', argoText: '', kstatusText: '' },
    ...parts,
  }
}
