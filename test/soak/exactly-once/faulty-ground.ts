import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ApiClient } from '../../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../../dev/control-plane/kubeconfig.ts'
import { Warden } from '../../../dev/control-plane/warden.ts'
import { Stage } from '../../../dev/demo/stage.ts'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { LocalStack } from '../../../dev/start/local-stack.ts'
import { anyPorts, type Ports, replicaCount } from '../../../dev/start/ports.ts'
import type { Graces } from '../../../dev/start/settings.ts'
import { delay } from '../../../src/lib/signals.ts'
import { testPrograms } from '../../support/programs.ts'
import type { KubeOptions } from '../kube.ts'
import { AdmissionGate } from './admission-gate.ts'
import { auditPolicy } from './audit-log.ts'
import { type KubectlPlace, runKubectl } from './kubectl-call.ts'

export const namespace = 'exactly-once'
const pod = 'pod'
/** short, since another scene tests graces */
const abrupt: Graces = { listen: '0s', shutdown: '1s' }
const readyMs = 60_000
/** limit for a new process on a busy machine. ms */
const restartMs = 90_000
/** agentk gives running calls 25 s to end. ms */
const agentkStopMs = 40_000
const askAgainMs = 100
const shownLogLines = 12

export interface FaultyGroundOptions {
  /** value of KUBEBUILDER_ASSETS */
  readonly assets: string
  readonly say: (text: string) => void
  readonly signal: AbortSignal
  /** graces of replicas that leave; default: they end at once */
  readonly graces?: Graces
  /** default: three */
  readonly replicas?: number
}

/** A real API server that records its requests, replicas of kas, one agentk, and kubectl. */
export class FaultyGround {
  readonly gate = new AdmissionGate()
  readonly warden: Warden
  readonly stage: Stage
  readonly #folder: string
  readonly #controlPlane: ControlPlane
  readonly #stack: LocalStack
  readonly #places = new Map<string, KubectlPlace>()

  private constructor(parts: {
    folder: string
    warden: Warden
    controlPlane: ControlPlane
    stack: LocalStack
    stage: Stage
  }) {
    this.#folder = parts.folder
    this.warden = parts.warden
    this.#controlPlane = parts.controlPlane
    this.#stack = parts.stack
    this.stage = parts.stage
  }

  /** Resolves when kubectl gets through each replica, and the API server calls the gate. */
  static async start(options: FaultyGroundOptions): Promise<FaultyGround> {
    const { assets, say, signal, graces = abrupt, replicas = replicaCount } = options
    const folder = await mkdtemp(join(tmpdir(), 'exactly-once-'))
    const warden = new Warden({ folders: [folder] })
    await warden.start()
    const policy = join(folder, 'audit-policy.json')
    await writeFile(policy, JSON.stringify(auditPolicy(namespace)))
    const controlPlane = new ControlPlane({
      assets,
      parts: 'all',
      auditLogFile: join(folder, 'audit.log'),
      flags: [`--audit-policy-file=${policy}`],
    })
    say('a control plane starts')
    try {
      await controlPlane.start()
    } catch (error) {
      await warden.stop()
      throw error
    }
    const ports = await anyPorts(replicas)
    const stackFolder = join(folder, 'stack')
    await mkdir(stackFolder, { mode: 0o700 })
    const { kubeconfig } = controlPlane
    const onStep = (text: string) => say(`starting ${text}`)
    const stack = new LocalStack({
      folder: stackFolder,
      ports,
      programs: testPrograms,
      kubeconfig,
      assets: undefined,
      graces,
      onStep,
    })
    try {
      await stack.start(signal)
    } catch (error) {
      await stack.stop(AbortSignal.abort())
      await controlPlane.stop()
      await warden.stop()
      throw error
    }
    const stage = new Stage(stack, { kubernetesPort: ports.kubernetes, print: () => undefined, signal })
    const ground = new FaultyGround({ folder, warden, controlPlane, stack, stage })
    try {
      await ground.#prepare({ assets, ports })
    } catch (error) {
      await ground.stop()
      throw error
    }
    return ground
  }

  /** client of the API server itself, without kas */
  get admin(): ApiClient {
    return this.#controlPlane.admin
  }

  /** Access at this replica, for clients other than kubectl. */
  access({ ports }: LocalReplica): KubeOptions {
    const { authority, userCredential } = this.#stack.access
    return { server: `https://127.0.0.1:${ports.kubernetes}`, ca: authority, credential: userCredential }
  }

  /** kubectl's files for this replica. */
  place(name: string): KubectlPlace {
    const place = this.#places.get(name)
    if (!place) throw new Error(`no kubeconfig for ${name}`)
    return place
  }

  /** Kills the replica and starts it again at once, as a StatefulSet does. */
  async kill(victim: LocalReplica): Promise<void> {
    await this.#endAndStart(victim, 'SIGKILL')
  }

  /** Restarts the replica as a rolling update does. @returns duration of its end. ms */
  restart(victim: LocalReplica): Promise<number> {
    return this.#endAndStart(victim, 'SIGTERM')
  }

  /** Removes the replica from the balancer: an agent that has lost its home does not connect there. */
  keepAgentsFrom({ name }: LocalReplica): void {
    this.#stack.balancer.remove(name)
  }

  /** Deletes the pod: another one takes its place at once. Resolves when the old one has ended. */
  replaceAgentk(): Promise<void> {
    return this.#stack.replaceAgentk(AbortSignal.any([this.stage.signal, AbortSignal.timeout(agentkStopMs)]))
  }

  async freeze(victim: LocalReplica, ms: number): Promise<void> {
    victim.signal('SIGSTOP')
    try {
      await delay(ms, this.stage.signal)
    } finally {
      victim.signal('SIGCONT')
    }
  }

  /** Last words of the commands that a pod has run. */
  async ran(): Promise<string[]> {
    const lines = await readFile(join(this.#controlPlane.podFolder, 'ran'), 'utf8').catch(() => '')
    return lines.split('\n').filter((line) => line !== '')
  }

  /** Ends of the replicas' logs, for the message of a failure. */
  async logTails(): Promise<string> {
    const tails = this.#stack.replicas.map(async ({ name, log }) => {
      const lines = (await readFile(log, 'utf8')).trimEnd().split('\n').slice(-shownLogLines)
      return `The end of the log of ${name}:\n${lines.join('\n')}`
    })
    return (await Promise.all(tails)).join('\n')
  }

  /** Ends all in order, so that the log is complete. @returns the audit log of the API server */
  async end(): Promise<string> {
    await this.#stopParts()
    const log = await readFile(join(this.#folder, 'audit.log'), 'utf8')
    await this.warden.stop()
    return log
  }

  async stop(): Promise<void> {
    await this.#stopParts()
    await this.warden.stop()
  }

  async #endAndStart(victim: LocalReplica, signal: 'SIGKILL' | 'SIGTERM'): Promise<number> {
    const at = performance.now()
    victim.signal(signal)
    await victim.exited
    const tookMs = performance.now() - at
    await this.#stack.startReplica(victim)
    await victim.ready(AbortSignal.any([this.stage.signal, AbortSignal.timeout(restartMs)]))
    return tookMs
  }

  async #stopParts(): Promise<void> {
    await this.stage.close()
    await this.#stack.stop(AbortSignal.abort()) // nothing runs there any more
    await this.#controlPlane.stop()
    await this.gate.stop()
  }

  async #prepare({ assets, ports }: { assets: string; ports: Ports }): Promise<void> {
    await this.gate.start()
    await this.#controlPlane.admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
    await Promise.all([this.#createPod(), this.#openGate(), this.#createPlaces({ assets, ports })])
  }

  /** Creates kubectl's files; kubectl has cached the discovery of the API through each replica. */
  async #createPlaces({ assets, ports }: { assets: string; ports: Ports }): Promise<void> {
    const cacheFolder = join(this.#folder, 'cache')
    await mkdir(cacheFolder)
    const { authority, userCredential } = this.#stack.access
    const create = async ({ name }: LocalReplica, i: number) => {
      const server = `https://127.0.0.1:${ports.replicas[i]?.kubernetes}`
      const kubeconfig = join(this.#folder, `${name}.kubeconfig`)
      await writeFile(kubeconfig, kubeconfigText({ server, authority, user: { token: userCredential } }), {
        mode: 0o600,
      })
      const place = { program: join(assets, 'kubectl'), kubeconfig, cacheFolder, namespace, pod }
      const { code, stderr } = await runKubectl(this, place, ['get', 'pods'])
      if (code !== 0) throw new Error(`kubectl through ${name}: ${stderr}`)
      this.#places.set(name, place)
    }
    await Promise.all(this.#stack.replicas.map(create))
  }

  async #createPod(): Promise<void> {
    const { admin } = this.#controlPlane
    const limit = AbortSignal.any([this.stage.signal, AbortSignal.timeout(readyMs)])
    const path = `/api/v1/namespaces/${namespace}`
    await admin.until(`${path}/serviceaccounts`, ({ metadata }) => metadata.name === 'default', limit)
    await admin.create(`${path}/pods`, {
      metadata: { name: pod },
      spec: { containers: [{ name: 'main', image: 'none' }] },
    })
    await admin.until(`${path}/pods`, ({ status }) => status?.phase === 'Running', limit)
  }

  /** Waits until the API server calls the gate, some time after its registration. */
  async #openGate(): Promise<void> {
    const { admin } = this.#controlPlane
    await admin.create(
      '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations',
      this.gate.configuration(namespace),
    )
    let asked = false
    void this.gate.arrivals('probe-', 1).then(() => {
      asked = true
    })
    const limit = AbortSignal.any([this.stage.signal, AbortSignal.timeout(readyMs)])
    for (let i = 0; !asked; i++) {
      await admin.create(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: `probe-${i}` } })
      if (!asked) await delay(askAgainMs, limit)
    }
  }
}
