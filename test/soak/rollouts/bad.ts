import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { emptyRegistry } from '../../support/nodes/node-cluster.ts'
import {
  container,
  deployment,
  podSpec,
  probe,
  quota,
  server,
  serving,
  statefulSet,
} from '../../support/nodes/workloads.ts'

/** A rollout that fails: the gate must end before the deadline, and print the reason. */
export interface BadRollout {
  readonly name: string
  /** objects to create; the last one is rolled out */
  objects(namespace: string, deadline: KubernetesObject): readonly KubernetesObject[]
  readonly reason: string
  /** patterns of the gate's output: the cause, and the end of the log */
  readonly says: readonly RegExp[]
}

const thatRuns = (options: Parameters<typeof server>[0]) => podSpec({ containers: [server(options)] })

export const noImage: BadRollout = {
  name: 'an image that is not there',
  objects: (namespace, spec) => [
    deployment({ namespace, spec, pod: thatRuns({ more: { image: `${emptyRegistry}/shop/web:2` } }) }),
  ],
  reason: 'ImageNotFound',
  says: [/shop\/web:2/],
}

export const crashes: BadRollout = {
  name: 'a crash at the start',
  objects: (namespace, spec) => [
    deployment({ namespace, spec, pod: thatRuns({ script: 'echo cannot open /data/db; exit 3' }) }),
  ],
  reason: 'CrashLoopBackOff',
  says: [/exit code 3/, /last lines of web-[^\n]*\n +cannot open \/data\/db/],
}

/** All ten bad rollouts of the long run. */
export const badRollouts: readonly BadRollout[] = [
  noImage,
  crashes,
  {
    name: 'too little memory',
    objects: (namespace, spec) => [
      deployment({
        namespace,
        spec,
        pod: thatRuns({
          script: 'echo loading; exec tail /dev/zero',
          more: { resources: { limits: { memory: '16Mi' } } },
        }),
      }),
    ],
    reason: 'OOMKilled',
    says: [/limit 16Mi/, /last lines of web-[^\n]*\n +loading/],
  },
  {
    name: 'an init container that fails',
    objects: (namespace, spec) => [
      deployment({
        namespace,
        spec,
        pod: podSpec({ initContainers: [container({ name: 'migrate', script: 'echo migration 42 failed; exit 1' })] }),
      }),
    ],
    reason: 'CrashLoopBackOff',
    says: [/container migrate: exit code 1/, /\n +migration 42 failed/],
  },
  {
    name: 'a command that is not there',
    objects: (namespace, spec) => [deployment({ namespace, spec, pod: thatRuns({ more: { command: ['/no/such'] } }) })],
    reason: 'StartError',
    says: [/\/no\/such/],
  },
  {
    name: 'a liveness probe that fails',
    objects: (namespace, spec) => [
      deployment({
        namespace,
        spec,
        pod: thatRuns({
          script: `echo serving; trap 'echo told to end; exit 0' TERM; ${serving({ beside: 'sleep 2; rm /tmp/served/ready; while :; do sleep 1; done' })}`,
          more: { livenessProbe: probe({ initialDelaySeconds: 1, failureThreshold: 1 }) },
        }),
      }),
    ],
    reason: 'LivenessProbeFailed',
    says: [/404/, /\n +serving/],
  },
  {
    name: 'a ConfigMap that is not there',
    objects: (namespace, spec) => [
      deployment({
        namespace,
        spec,
        pod: thatRuns({ more: { envFrom: [{ configMapRef: { name: 'settings' } }] } }),
      }),
    ],
    reason: 'CreateContainerConfigError',
    says: [/configmap "settings" not found/],
  },
  {
    name: 'a quota without room',
    objects: (namespace, spec) => [quota(namespace, 1), deployment({ namespace, spec })],
    reason: 'QuotaExceeded',
    says: [/exceeded quota: compute/],
  },
  {
    name: 'a StatefulSet whose first Pod crashes',
    objects: (namespace) => [statefulSet({ namespace, pod: thatRuns({ script: 'echo no such table; exit 4' }) })],
    reason: 'CrashLoopBackOff',
    says: [/exit code 4/, /last lines of web-0[^\n]*\n +no such table/],
  },
  {
    name: 'a crash after each Pod was ready',
    objects: (namespace, spec) => [
      deployment({
        namespace,
        spec,
        pod: thatRuns({ script: serving({ beside: 'sleep 5; echo connection lost; exit 5' }) }),
      }),
    ],
    reason: 'CrashLoopBackOff',
    says: [/exit code 5/, /\n +connection lost/],
  },
]
