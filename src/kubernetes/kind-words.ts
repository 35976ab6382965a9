import { type KindNames, kindKey, parseKindKey } from './kind.ts'

/** Words for kinds, in the forms that kubectl accepts. */

export interface NamedKind {
  /** as `kindKey` writes it */
  readonly key: string
  readonly group: string
  readonly plural: string
  readonly names?: KindNames | undefined
}

export interface BuiltInKind extends NamedKind {
  readonly names: KindNames
  readonly isNamespaced: boolean
}

/** group, then for each kind: kind, plural, short names; `*`: without namespaces; `+`: in the category `all` */
const table = `
core
  +Pod pods po|+Service services svc|+ReplicationController replicationcontrollers rc|ConfigMap configmaps cm
  Secret secrets|ServiceAccount serviceaccounts sa|PersistentVolumeClaim persistentvolumeclaims pvc
  Endpoints endpoints ep|Event events ev|LimitRange limitranges limits|ResourceQuota resourcequotas quota
  PodTemplate podtemplates|*Node nodes no|*Namespace namespaces ns|*PersistentVolume persistentvolumes pv
apps
  +Deployment deployments deploy|+ReplicaSet replicasets rs|+StatefulSet statefulsets sts|+DaemonSet daemonsets ds
  ControllerRevision controllerrevisions
batch
  +Job jobs|+CronJob cronjobs cj
autoscaling
  +HorizontalPodAutoscaler horizontalpodautoscalers hpa
networking.k8s.io
  Ingress ingresses ing|NetworkPolicy networkpolicies netpol|*IngressClass ingressclasses
discovery.k8s.io
  EndpointSlice endpointslices
policy
  PodDisruptionBudget poddisruptionbudgets pdb
rbac.authorization.k8s.io
  Role roles|RoleBinding rolebindings|*ClusterRole clusterroles|*ClusterRoleBinding clusterrolebindings
storage.k8s.io
  *StorageClass storageclasses sc|*VolumeAttachment volumeattachments|*CSIDriver csidrivers|*CSINode csinodes
  CSIStorageCapacity csistoragecapacities
scheduling.k8s.io
  *PriorityClass priorityclasses pc
coordination.k8s.io
  Lease leases
apiextensions.k8s.io
  *CustomResourceDefinition customresourcedefinitions crd,crds
apiregistration.k8s.io
  *APIService apiservices
admissionregistration.k8s.io
  *ValidatingWebhookConfiguration validatingwebhookconfigurations
  *MutatingWebhookConfiguration mutatingwebhookconfigurations
  *ValidatingAdmissionPolicy validatingadmissionpolicies
certificates.k8s.io
  *CertificateSigningRequest certificatesigningrequests csr
node.k8s.io
  *RuntimeClass runtimeclasses
flowcontrol.apiserver.k8s.io
  *FlowSchema flowschemas|*PriorityLevelConfiguration prioritylevelconfigurations
`

/** Kubernetes' own kinds that every cluster has. */
export const builtInKinds: readonly BuiltInKind[] = readTable()

const builtInByKey = new Map(builtInKinds.map((kind) => [kind.key, kind]))

export function builtInKind(key: string): BuiltInKind | undefined {
  return builtInByKey.get(key)
}

/** Kinds that one word names: built-in kinds by the table, other kinds by their discovery names. */
export interface KindWord {
  readonly word: string
  readonly builtIn: readonly BuiltInKind[]
  names(kind: NamedKind): boolean
}

/**
 * @param word - kind, plural, singular or short name, in any case, with or without `.group` or `.version.group`;
 * `group/Kind`; a category. A name of a built-in kind names that kind alone, as in kubectl.
 */
export function kindWord(word: string): KindWord {
  const wanted = word.toLowerCase()
  const named = builtInKinds.filter((kind) => isNamed(kind, wanted))
  const inCategory = (kind: NamedKind) => kind.names?.categories.includes(wanted) ?? false
  const builtIn = named.length > 0 ? named : builtInKinds.filter(inCategory)
  const keys = new Set(builtIn.map(({ key }) => key))
  const names = (kind: NamedKind) => {
    if (builtInByKey.has(kind.key)) return keys.has(kind.key)
    return named.length === 0 && (isNamed(kind, wanted) || inCategory(kind))
  }
  return { word, builtIn, names }
}

/** True if the word names the kind with this key. The plural of a kind that is not built in is not known here. */
export function namesKey(word: string, key: string): boolean {
  return kindWord(word).names({ key, group: parseKindKey(key).group, plural: '' })
}

function isNamed({ key, group, plural, names }: NamedKind, wanted: string): boolean {
  if (wanted.includes('/')) return key.toLowerCase() === wanted
  const [name = '', ...rest] = wanted.split('.')
  const kind = parseKindKey(key).kind.toLowerCase()
  const isName = name !== '' && [plural, kind, names?.singular, ...(names?.short ?? [])].includes(name)
  return isName && (rest.length === 0 || rest.join('.') === group || rest.slice(1).join('.') === group)
}

function readTable(): BuiltInKind[] {
  let group = ''
  return table
    .trim()
    .split('\n')
    .flatMap((line) => {
      if (!line.startsWith(' ')) group = line === 'core' ? '' : line
      return line.startsWith(' ')
        ? line
            .trim()
            .split('|')
            .map((entry) => readKind(group, entry))
        : []
    })
}

function readKind(group: string, entry: string): BuiltInKind {
  const [mark = '', kind = '', plural = '', short = ''] = /^([*+]?)(\S+) (\S+) ?(\S*)$/.exec(entry)?.slice(1) ?? []
  return {
    key: kindKey(group, kind),
    group,
    plural,
    names: {
      singular: kind.toLowerCase(),
      short: short.split(',').filter(Boolean),
      categories: mark === '+' ? ['all'] : [],
    },
    isNamespaced: mark !== '*',
  }
}
