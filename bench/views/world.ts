/** A cluster of any size, generated when read: of 16 objects 12 are Pods, 2 ReplicaSets, 1 Deployment, 1 ConfigMap. */
const podsEach = 12
const setsEach = 2
export const unitObjects = podsEach + setsEach + 2
const namespaces = 20
const nodes = 500
const created = '2026-01-05T10:00:00Z'
/** one Pod of so many does not start */
const brokenEach = 97

/** Size of a Pod's JSON, as usual in production. */
export const podBytes = 4800

export type KindName = 'Pod' | 'ReplicaSet' | 'Deployment' | 'ConfigMap'

const kindNames: readonly KindName[] = ['Pod', 'ReplicaSet', 'Deployment', 'ConfigMap']

/** Objects by kind and place; those of a kind in the order in which an API server lists them. */
export class World {
  readonly #units: number
  /** number of Pods of one more ReplicaSet */
  family = 0
  /** restarts by uid */
  readonly #restarts = new Map<string, number>()

  constructor(objects: number) {
    this.#units = Math.max(1, Math.floor(objects / unitObjects))
  }

  count(kind: KindName): number {
    const inUnits = this.#units * { Pod: podsEach, ReplicaSet: setsEach, Deployment: 1, ConfigMap: 1 }[kind]
    return inUnits + (kind === 'Pod' ? this.family : kind === 'ReplicaSet' && this.family > 0 ? 1 : 0)
  }

  /** Number of Pods of the first namespace. */
  get firstPods(): number {
    return Math.max(1, Math.floor(this.#units / namespaces)) * podsEach
  }

  /** Place of the first Pod in the family. */
  get familyFrom(): number {
    return this.#units * podsEach
  }

  /** @returns the changed Pod */
  restart(place: number, restarts: number): { uid: string; json: string } {
    const uid = uidOf('Pod', place)
    this.#restarts.set(uid, restarts)
    return { uid, json: this.json('Pod', place, false) }
  }

  json(kind: KindName, place: number, isMetadata: boolean): string {
    if (kind === 'Pod') return this.#pod(place)
    if (kind === 'ReplicaSet') return this.#replicaSet(place)
    const { namespace, app } = this.#unit(place)
    const metadata = metadataOf({ kind, place, namespace, name: app, app })
    if (kind === 'Deployment') return `{${metadata},${deployment(app)}}`
    return `{${isMetadata ? partial : ''}${metadata}${isMetadata ? '' : `,"data":{"settings":"${'s'.repeat(1000)}"}`}}`
  }

  #unit(unit: number): { namespace: string; app: string } {
    const namespace = `ns-${String(Math.floor((unit * namespaces) / this.#units)).padStart(2, '0')}`
    return { namespace, app: `app-${String(unit).padStart(5, '0')}` }
  }

  #replicaSet(place: number): string {
    if (place >= this.#units * setsEach) {
      const metadata = metadataOf({ kind: 'ReplicaSet', place, namespace: 'family', name: 'family', app: 'family' })
      return `{${metadata},${replicaSet('family', this.family)}}`
    }
    const unit = Math.floor(place / setsEach)
    const { namespace, app } = this.#unit(unit)
    const name = `${app}-${hashOf(place)}`
    const owner = ownerOf('apps/v1', 'Deployment', app, uidOf('Deployment', unit))
    const metadata = metadataOf({ kind: 'ReplicaSet', place, namespace, name, app, owner })
    return `{${metadata},${replicaSet(app, place % setsEach === 0 ? podsEach : 0)}}`
  }

  #pod(place: number): string {
    const isOfFamily = place >= this.familyFrom
    const unit = Math.floor(place / podsEach)
    const { namespace, app } = isOfFamily ? { namespace: 'family', app: 'family' } : this.#unit(unit)
    const set = isOfFamily ? this.#units * setsEach : unit * setsEach
    const setName = isOfFamily ? 'family' : `${app}-${hashOf(set)}`
    const name = `${setName}-${String(place).padStart(7, '0')}`
    const owner = ownerOf('apps/v1', 'ReplicaSet', setName, uidOf('ReplicaSet', set))
    const metadata = metadataOf({ kind: 'Pod', place, namespace, name, app, owner })
    const restarts = this.#restarts.get(uidOf('Pod', place)) ?? 0
    const isBroken = !isOfFamily && place % brokenEach === brokenEach - 1
    const body = `{${metadata},${podSpec(place)},${podStatus(place, isBroken, restarts)}}`
    return body.replace('"managedFields":[]', managedFields(podBytes - body.length))
  }
}

const partial = '"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",'

export function uidOf(kind: KindName, place: number): string {
  return `0000000${kindNames.indexOf(kind)}-0000-4000-8000-${place.toString(16).padStart(12, '0')}`
}

const hashOf = (place: number) => (0x5f3759df ^ (place * 2654435761)).toString(36).replace('-', 'x').padStart(7, 'z')

function ownerOf(apiVersion: string, kind: string, name: string, uid: string): string {
  const owner = { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }
  return `,"ownerReferences":[${JSON.stringify(owner)}]`
}

interface MetadataOf {
  readonly kind: KindName
  readonly place: number
  readonly namespace: string
  readonly name: string
  readonly app: string
  readonly owner?: string
}

function metadataOf({ kind, place, namespace, name, app, owner = '' }: MetadataOf): string {
  const labels = `"labels":{"app.kubernetes.io/name":"${app}","app.kubernetes.io/part-of":"${namespace}","tier":"web"}`
  const common = `"name":"${name}","namespace":"${namespace}","uid":"${uidOf(kind, place)}","resourceVersion":"${version}"`
  return `"metadata":{${common},"creationTimestamp":"${created}",${labels}${owner},"managedFields":[]}`
}

/** Version of all objects, which is never too old. */
export const version = '1000'

/** Returns managed fields of that length, with a usual content. */
function managedFields(bytes: number): string {
  const field = '"f:name":{},"f:image":{},"f:env":{".":{},"k:{port}":{}},'
  const begin = `"managedFields":[{"manager":"kube-controller-manager","operation":"Update","fieldsV1":{"f:spec":{`
  const end = '"f:end":{}}}}]'
  const left = bytes - begin.length - end.length
  return begin + field.repeat(Math.max(0, Math.floor(left / field.length))) + end
}

function podSpec(place: number): string {
  return `"spec":{"nodeName":"node-${place % nodes}",${podSpecRest}}`
}

const podSpecRest = JSON.stringify({
  containers: ['web', 'proxy'].map((name) => ({
    name,
    image: `registry.example/${name}:1.27.3`,
    ports: [{ containerPort: 8080, protocol: 'TCP' }],
    env: Array.from({ length: 6 }, (_, i) => ({ name: `SETTING_${i}`, value: `value-${i}` })),
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
    volumeMounts: [{ name: 'token', readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' }],
  })),
  volumes: [{ name: 'token', projected: { sources: [{ serviceAccountToken: { expirationSeconds: 3607 } }] } }],
  restartPolicy: 'Always',
  serviceAccountName: 'default',
}).slice(1, -1)

function podStatus(place: number, isBroken: boolean, restarts: number): string {
  const ready = isBroken ? 'False' : 'True'
  const condition = (type: string, status: string) =>
    `{"type":"${type}","status":"${status}","lastTransitionTime":"${created}"}`
  const state = isBroken
    ? '{"waiting":{"reason":"CrashLoopBackOff","message":"back-off restarting failed container"}}'
    : `{"running":{"startedAt":"${created}"}}`
  const container = (name: string, count: number) =>
    `{"name":"${name}","ready":${!isBroken},"started":true,"restartCount":${count},"image":"registry.example/${name}:1.27.3","state":${state}}`
  const conditions = `"conditions":[${condition('Initialized', 'True')},${condition('Ready', ready)},${condition('ContainersReady', ready)},${condition('PodScheduled', 'True')}]`
  const ip = `10.${place >> 16}.${(place >> 8) & 255}.${place & 255}`
  return `"status":{"phase":"Running",${conditions},"podIP":"${ip}","containerStatuses":[${container('web', restarts)},${container('proxy', 0)}]}`
}

function replicaSet(app: string, replicas: number): string {
  const counts = `"replicas":${replicas},"readyReplicas":${replicas},"availableReplicas":${replicas}`
  return `"spec":{"replicas":${replicas},${selectorOf(app)}},"status":{${counts},"observedGeneration":1}`
}

function deployment(app: string): string {
  const counts = ['replicas', 'readyReplicas', 'availableReplicas', 'updatedReplicas'].map(
    (name) => `"${name}":${podsEach}`,
  )
  return `"spec":{"replicas":${podsEach},${selectorOf(app)}},"status":{${counts.join(',')},"observedGeneration":1}`
}

const selectorOf = (app: string) => `"selector":{"matchLabels":{"app.kubernetes.io/name":"${app}"}}`
