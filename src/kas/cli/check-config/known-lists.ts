/**
 * How the API server divides fields of its own kinds among managers (`x-kubernetes-list-type`, `-map-type`).
 *
 * - `atomic`: one manager owns the whole list or map
 * - `set`: a manager owns single values, which never conflict
 * - other texts: fields by which the items of a list are known, joined by commas
 */
export type ListType = 'atomic' | 'set' | (string & {})

type Types = Readonly<Record<string, ListType>>

/** Prefixes all paths of `types`. */
function below(prefix: string, types: Types): Types {
  return Object.fromEntries(Object.entries(types).map(([path, type]) => [`${prefix}.${path}`, type]))
}

const probe: Types = { 'exec.command': 'atomic', 'httpGet.httpHeaders': 'atomic' }
const container: Types = {
  args: 'atomic',
  command: 'atomic',
  env: 'name',
  envFrom: 'atomic',
  ports: 'containerPort,protocol',
  resizePolicy: 'atomic',
  'resources.claims': 'name',
  'securityContext.capabilities.add': 'atomic',
  'securityContext.capabilities.drop': 'atomic',
  volumeDevices: 'devicePath',
  volumeMounts: 'mountPath',
  ...below('livenessProbe', probe),
  ...below('readinessProbe', probe),
  ...below('startupProbe', probe),
}
const podSpec: Types = {
  containers: 'name',
  initContainers: 'name',
  ...below('containers', container),
  ...below('initContainers', container),
  'dnsConfig.nameservers': 'atomic',
  'dnsConfig.options': 'atomic',
  'dnsConfig.searches': 'atomic',
  hostAliases: 'ip',
  imagePullSecrets: 'name',
  nodeSelector: 'atomic',
  readinessGates: 'atomic',
  schedulingGates: 'name',
  'securityContext.supplementalGroups': 'atomic',
  'securityContext.sysctls': 'atomic',
  tolerations: 'atomic',
  topologySpreadConstraints: 'topologyKey,whenUnsatisfiable',
  volumes: 'name',
  'volumes.configMap.items': 'atomic',
  'volumes.downwardAPI.items': 'atomic',
  'volumes.projected.sources': 'atomic',
  'volumes.secret.items': 'atomic',
}

/** Types that hold for every kind with such a path. */
export const commonTypes: Types = {
  'metadata.finalizers': 'set',
  'metadata.ownerReferences': 'uid',
  ...below('spec.template.spec', podSpec),
  ...below('spec.jobTemplate.spec.template.spec', podSpec),
}

const selector: Types = { 'spec.selector': 'atomic' }

/** Further types of a kind, by its key as `kindKey` writes it. */
export const typesOfKind: Readonly<Record<string, Types>> = {
  Pod: below('spec', podSpec),
  Service: {
    ...selector,
    'spec.clusterIPs': 'atomic',
    'spec.externalIPs': 'atomic',
    'spec.ipFamilies': 'atomic',
    'spec.loadBalancerSourceRanges': 'atomic',
    'spec.ports': 'port,protocol',
  },
  ServiceAccount: { imagePullSecrets: 'atomic', secrets: 'name' },
  PersistentVolumeClaim: { ...selector, 'spec.accessModes': 'atomic' },
  PersistentVolume: { 'spec.accessModes': 'atomic', 'spec.mountOptions': 'atomic' },
  ResourceQuota: { 'spec.scopes': 'atomic' },
  'apps/Deployment': selector,
  'apps/ReplicaSet': selector,
  'apps/DaemonSet': selector,
  'apps/StatefulSet': { ...selector, 'spec.volumeClaimTemplates': 'atomic' },
  'batch/Job': selector,
  'autoscaling/HorizontalPodAutoscaler': { 'spec.metrics': 'atomic' },
  'networking.k8s.io/Ingress': { 'spec.rules': 'atomic', 'spec.tls': 'atomic' },
  'networking.k8s.io/NetworkPolicy': {
    'spec.egress': 'atomic',
    'spec.ingress': 'atomic',
    'spec.podSelector': 'atomic',
    'spec.policyTypes': 'atomic',
  },
  'policy/PodDisruptionBudget': selector,
  'rbac.authorization.k8s.io/Role': { rules: 'atomic' },
  'rbac.authorization.k8s.io/ClusterRole': { rules: 'atomic' },
  'rbac.authorization.k8s.io/RoleBinding': { roleRef: 'atomic', subjects: 'atomic' },
  'rbac.authorization.k8s.io/ClusterRoleBinding': { roleRef: 'atomic', subjects: 'atomic' },
  'apiextensions.k8s.io/CustomResourceDefinition': { 'spec.versions': 'atomic' },
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': { webhooks: 'name', 'webhooks.rules': 'atomic' },
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': { webhooks: 'name', 'webhooks.rules': 'atomic' },
}
