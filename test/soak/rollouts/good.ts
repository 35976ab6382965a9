import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import {
  container,
  daemonSet,
  deployment,
  ingress,
  job,
  podSpec,
  probe,
  quota,
  server,
  service,
  serving,
  statefulSet,
} from '../../support/nodes/workloads.ts'
import type { RolloutStage } from './rollout-stage.ts'

/** A rollout that succeeds, possibly slowly: none of its objects is ever Degraded. */
export interface GoodRollout {
  readonly name: string
  /** resolves when the cluster reports its completion */
  play(stage: RolloutStage): Promise<unknown>
}

const serverThat = (options: Parameters<typeof server>[0], more: KubernetesObject = {}) =>
  podSpec({ containers: [server(options)], ...more })

/** Creates the object, and once it is rolled out, replaces all its Pods. */
async function replaced(stage: RolloutStage, object: KubernetesObject): Promise<void> {
  await stage.create(object)
  await stage.rolledOut(object)
  await stage.changePods(object)
  await stage.rolledOut(object)
}

const isComplete = ({ status }: KubernetesObject) =>
  (status?.conditions ?? []).some(
    ({ type, status }: Record<string, string>) => type === 'Complete' && status === 'True',
  )

/** delay of a busy person, or of something that is needed late. ms */
const lateMs = 8000
const late = () => delay(lateMs, AbortSignal.timeout(2 * lateMs))

const rolling = (maxSurge: number, maxUnavailable: number) => ({
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } },
})

export const slowUpdate: GoodRollout = {
  name: 'a Deployment whose Pods are ready late, replaced',
  async play(stage) {
    const pod = serverThat({ script: serving({ readyAfter: 4 }) })
    await replaced(stage, deployment({ namespace: stage.namespace, pod, spec: rolling(1, 0) }))
  },
}

export const orderedSet: GoodRollout = {
  name: 'a StatefulSet, one Pod after the other, replaced',
  async play(stage) {
    await stage.create(service(stage.namespace))
    await replaced(stage, statefulSet(stage))
  },
}

export const autoscaled: GoodRollout = {
  name: 'a HorizontalPodAutoscaler that scales up and down',
  async play(stage) {
    const { namespace, metrics } = stage
    const metric = `load-${namespace}`
    metrics.values.set(metric, 40)
    const web = deployment({ namespace, replicas: 1 })
    await stage.create(web)
    await stage.rolledOut(web)
    await stage.create(autoscaler(namespace, metric))
    await stage.until(web, ({ status }) => status.availableReplicas === 3)
    metrics.values.set(metric, 10)
    await stage.until(web, ({ spec, status }) => spec.replicas === 1 && status.replicas === 1)
  },
}

function autoscaler(namespace: string, metric: string): KubernetesObject {
  const target = { type: 'AverageValue', averageValue: '10' }
  return {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'web', namespace },
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' },
      minReplicas: 1,
      maxReplicas: 3,
      metrics: [{ type: 'External', external: { metric: { name: metric }, target } }],
      behavior: { scaleDown: { stabilizationWindowSeconds: 0 } },
    },
  }
}

/** The node that is drained in the middle. */
const drainedNode = 'node-3'

/** All twenty good rollouts of the long run. */
export const goodRollouts: readonly GoodRollout[] = [
  {
    name: 'a rollout in a quota that is full',
    async play(stage) {
      const { namespace } = stage
      await stage.create(quota(namespace, 3))
      await replaced(stage, deployment({ namespace, replicas: 3, spec: rolling(1, 1) }))
    },
  },
  slowUpdate,
  orderedSet,
  autoscaled,
  {
    name: 'a Service and an Ingress before their Deployment',
    async play(stage) {
      const { namespace } = stage
      await stage.create(ingress(namespace, 'web', 'web'))
      await late()
      await stage.create(service(namespace))
      await late()
      const web = deployment({ namespace, replicas: 3 })
      await stage.create(web)
      await stage.rolledOut(web)
    },
  },
  {
    name: 'a rollout with more Pods than it needs',
    play: (stage) => replaced(stage, deployment({ namespace: stage.namespace, replicas: 4, spec: rolling(2, 2) })),
  },
  {
    name: 'Recreate: for a time there is no Pod',
    async play(stage) {
      await stage.create(service(stage.namespace))
      await replaced(stage, deployment({ namespace: stage.namespace, spec: { strategy: { type: 'Recreate' } } }))
    },
  },
  {
    name: 'a start that takes long, by a startup probe',
    async play(stage) {
      const more = { startupProbe: probe({ failureThreshold: 60 }), livenessProbe: probe() }
      const pod = serverThat({ script: serving({ readyAfter: 15 }), more })
      const web = deployment({ namespace: stage.namespace, pod })
      await stage.create(web)
      await stage.rolledOut(web)
    },
  },
  {
    name: 'readiness that is lost for a while',
    async play(stage) {
      const away = `(sleep 6; rm /tmp/served/ready; sleep 8; echo yes >/tmp/served/ready) &`
      const web = deployment({ namespace: stage.namespace, pod: serverThat({ script: `${away} ${serving()}` }) })
      await stage.create(service(stage.namespace), web)
      await stage.rolledOut(web)
      await late()
      await stage.until(web, ({ status }) => status.readyReplicas === 2)
    },
  },
  {
    name: 'a ConfigMap that comes after its Deployment',
    async play(stage) {
      const { namespace } = stage
      const pod = serverThat({ more: { envFrom: [{ configMapRef: { name: 'settings' } }] } })
      const web = deployment({ namespace, pod })
      await stage.create(web)
      await late()
      await stage.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings', namespace } })
      await stage.rolledOut(web)
    },
  },
  {
    name: 'a container that crashes twice before it finds what it needs',
    async play(stage) {
      const script = `n=$(cat /data/n 2>/dev/null || echo 0); echo $((n + 1)) >/data/n; [ $n -ge 2 ] || exit 1; ${serving()}`
      const more = { volumeMounts: [{ name: 'data', mountPath: '/data' }] }
      const pod = serverThat({ script, more }, { volumes: [{ name: 'data', emptyDir: {} }] })
      const web = deployment({ namespace: stage.namespace, pod })
      await stage.create(web)
      await stage.rolledOut(web)
    },
  },
  {
    name: 'init containers, and a sidecar',
    async play(stage) {
      const initContainers = [
        container({ name: 'migrate', script: 'sleep 4' }),
        container({ name: 'proxy', script: 'sleep 10000', more: { restartPolicy: 'Always' } }),
      ]
      await replaced(stage, deployment({ namespace: stage.namespace, pod: podSpec({ initContainers }) }))
    },
  },
  {
    name: 'a StatefulSet, all Pods at once',
    async play(stage) {
      await stage.create(service(stage.namespace))
      const set = statefulSet({ namespace: stage.namespace, replicas: 3, spec: { podManagementPolicy: 'Parallel' } })
      await stage.create(set)
      await stage.rolledOut(set)
    },
  },
  {
    name: 'a DaemonSet, replaced',
    play: (stage) => replaced(stage, daemonSet(stage)),
  },
  {
    name: 'a Job of four runs, two at once',
    async play(stage) {
      const one = job({ namespace: stage.namespace, script: 'sleep 2' }, { spec: { completions: 4, parallelism: 2 } })
      await stage.create(one)
      await stage.until(one, isComplete)
    },
  },
  {
    name: 'a Job that succeeds at the second try',
    async play(stage) {
      const { namespace, ground } = stage
      const volumes = [
        { name: 'data', hostPath: { path: `${ground.cluster.folder}/${namespace}`, type: 'DirectoryOrCreate' } },
      ]
      const script = '[ -f /data/tried ] && exit 0; touch /data/tried; exit 1'
      const containers = [container({ script, more: { volumeMounts: [{ name: 'data', mountPath: '/data' }] } })]
      const one = job({ namespace, script }, { pod: { containers, volumes } })
      await stage.create(one)
      await stage.until(one, isComplete)
    },
  },
  {
    name: 'a CronJob',
    async play(stage) {
      const { namespace } = stage
      const jobTemplate = { spec: job({ namespace, script: 'sleep 3' }).spec }
      const cron = {
        apiVersion: 'batch/v1',
        kind: 'CronJob',
        metadata: { name: 'tick', namespace },
        spec: { schedule: '* * * * *', jobTemplate },
      }
      await stage.create(cron)
      await stage.until(cron, ({ status }) => status?.lastSuccessfulTime !== undefined)
    },
  },
  {
    name: 'to no replicas and back, and a pause',
    async play(stage) {
      const web = deployment(stage)
      await stage.create(service(stage.namespace), web)
      await stage.rolledOut(web)
      await stage.change(web, { spec: { replicas: 0 } })
      await stage.until(web, ({ status }) => status.replicas === undefined || status.replicas === 0)
      await stage.change(web, { spec: { replicas: 2, paused: true } })
      await stage.changePods(web)
      await stage.until(web, ({ status }) => status.availableReplicas === 2)
      await stage.change(web, { spec: { paused: false } })
      await stage.rolledOut(web)
    },
  },
  {
    name: 'Pods that take their time to end',
    async play(stage) {
      const lifecycle = { preStop: { sleep: { seconds: 12 } } }
      const pod = serverThat({ more: { lifecycle } }, { terminationGracePeriodSeconds: 20 })
      await replaced(stage, deployment({ namespace: stage.namespace, pod }))
    },
  },
  {
    name: 'a node is drained in the middle of a rollout',
    async play(stage) {
      const { namespace, ground } = stage
      const pod = serverThat({ script: serving({ readyAfter: 3 }) })
      const web = deployment({ namespace, replicas: 4, pod })
      const budget = {
        apiVersion: 'policy/v1',
        kind: 'PodDisruptionBudget',
        metadata: { name: 'web', namespace },
        spec: { maxUnavailable: 1, selector: { matchLabels: { app: 'web' } } },
      }
      await stage.create(budget, service(namespace), web)
      await stage.rolledOut(web)
      await stage.changePods(web)
      const drain = ['drain', drainedNode, '--ignore-daemonsets', '--force', '--delete-emptydir-data', '--timeout=150s']
      try {
        const drained = await (await ground.kubectl.start(drain)).ends({ timeoutMs: 180_000 })
        if (drained.code !== 0) throw new Error(`kubectl drain: ${drained.code} ${drained.stderr}`)
        await stage.rolledOut(web)
      } finally {
        await ground.kubectl.ok(['uncordon', drainedNode]) // others use it
      }
    },
  },
]
