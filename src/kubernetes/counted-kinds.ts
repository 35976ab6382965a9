/** Kinds of the other objects that a verdict reads, by `group/Kind` of the judged object. */
export const countedKinds: Readonly<Record<string, readonly string[]>> = {
  'apps/Deployment': ['apps/ReplicaSet', 'Pod'],
  'apps/ReplicaSet': ['Pod'],
  'apps/StatefulSet': ['Pod', 'PersistentVolumeClaim'],
  'apps/DaemonSet': ['Pod'],
  ReplicationController: ['Pod'],
  'batch/CronJob': ['batch/Job', 'Pod'],
  'batch/Job': ['Pod'],
  Service: ['discovery.k8s.io/EndpointSlice', 'Pod'],
  'networking.k8s.io/Ingress': ['Service', 'discovery.k8s.io/EndpointSlice'],
}
