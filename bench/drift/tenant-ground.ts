import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringify } from 'yaml'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { agentkUser, type Ground } from '../gitops/ground.ts'
import { ObjectSet } from '../gitops/objects.ts'
import { SeenObjects } from '../gitops/seen-objects.ts'
import { agentkNamespace } from '../hop/ours.ts'
import { askProgram, hear } from '../support/ask-program.ts'
import { machineTime } from '../support/machine-time.ts'
import { percentile } from '../support/percentile.ts'
import { cpuSeconds, type Programs } from '../support/programs.ts'
import { SteadyGets } from '../views/steady-gets.ts'
import { configurationFile } from './layout.ts'
import type { WriteQuestion, WriterSettings, Written } from './writer.ts'

/** ConfigMaps of the tenant's source, and as many that no source has */
const maps = 1000
const mapsOfFile = 100
const account = 'tenant'
const tokenLifeMs = 24 * 3_600_000
/** Pause after a phase: its last events arrive. ms */
const restMs = 2000
/** Limit of a push while the API server is busy. ms */
const pushTimeoutMs = 120_000

/** Writes in a phase: none, of objects that no source has, or of the objects of the tenant's source. */
export type Writes = 'idle' | 'others' | 'tenant'

/** A tenant's source, another source with a push after the other, and a caller through the tunnel. */
export class TenantGround {
  /** user of the writes */
  static readonly user = `system:serviceaccount:${agentkNamespace}:${account}`
  readonly #ground: Ground
  readonly #options: { readonly seconds: number; readonly writes: number }
  readonly #other = new ObjectSet('other', 100)
  readonly #seen: SeenObjects
  #writer: ChildProcess | undefined
  #version = 0

  /** @param options - seconds of a phase, and writes a second */
  constructor(ground: Ground, options: { readonly seconds: number; readonly writes: number }) {
    this.#ground = ground
    this.#options = options
    this.#seen = new SeenObjects(ground.controlPlane.admin, 'other')
  }

  /** Resolves when both sources are in the cluster. */
  async start(programs: Programs, signal: AbortSignal): Promise<void> {
    const { pushes, controlPlane } = this.#ground
    const { admin, server, caFile } = controlPlane
    for (const name of ['tenant', 'others']) await admin.create('/api/v1/namespaces', { metadata: { name } })
    for (const map of mapsIn('others')) await admin.create('/api/v1/namespaces/others/configmaps', map)
    this.#seen.start()
    const commit = await pushes.commit({ ...tenantFiles(), ...this.#other.files() })
    const configuration = configurationFile([
      { name: 'tenant', ref: { commit }, paths: [{ glob: 'tenant/**' }] }, // a push of the other one is none of its own
      { name: 'other', paths: [{ glob: 'other/**' }] },
    ])
    const newest = await pushes.commit(configuration)
    await this.#ground.tell()
    await this.#ground.synced(commit, signal)
    await this.#ground.synced(newest, signal)
    const token = controlPlane.signToken({
      account: await createServiceAccount(admin, { namespace: agentkNamespace, name: account }),
      lifeMs: tokenLifeMs,
    })
    const settings: WriterSettings = { server, caFile, token }
    this.#writer = programs.spawn(join(import.meta.dirname, 'writer.ts'), [JSON.stringify(settings)])
    await hear(this.#writer)
  }

  stop(): void {
    this.#seen.stop()
  }

  /** Measures one phase. */
  async phase(writes: Writes): Promise<Record<string, number>> {
    const { seconds, writes: perSecond } = this.#options
    const { log, agentkPid, target } = this.#ground
    const [from, begun, cpu] = [log.end, machineTime(), cpuSeconds(agentkPid)]
    const question: WriteQuestion = { namespace: writes === 'idle' ? '' : writes, objects: maps, perSecond, seconds }
    const writing = writes === 'idle' ? undefined : askProgram<Written>(this.#writer as ChildProcess, question)
    const gets = new SteadyGets(target('/api/v1/namespaces/other-0/configmaps/app-000-0'))
    const rounds: number[] = []
    while (machineTime() < begun + seconds * 1000) rounds.push(await this.#push())
    const ended = machineTime()
    await gets.stop()
    const calls = gets.percentiles(begun, ended)
    const { took, between } = log.renewals(from, agentkUser)
    const used = (cpuSeconds(agentkPid) - cpu) / ((ended - begun) / 1000)
    const written = await writing
    await sleep(restMs)
    return {
      'another source, push to applied: p50, ms': percentile(rounds, 0.5),
      'another source, push to applied: p99, ms': percentile(rounds, 0.99),
      'renewal of the Lease, at the API server: p50, ms': percentile(took, 0.5),
      'renewal of the Lease, at the API server: p99, ms': percentile(took, 0.99),
      'time between two renewals: p50, ms': percentile(between, 0.5),
      'time between two renewals: p99, ms': percentile(between, 0.99),
      'GET through the tunnel: p50, ms': calls.p50,
      'GET through the tunnel: p99, ms': calls.p99,
      'CPU of agentk, of a core': used,
      ...(written && { 'writes a second': written.perSecond }),
    }
  }

  /** @returns ms from the push until its object is in the cluster */
  async #push(): Promise<number> {
    const { pushes } = this.#ground
    const version = String(++this.#version)
    await pushes.commit(this.#other.file(0, version))
    const begun = machineTime()
    await this.#ground.tell()
    return (await this.#seen.version(version, 1, AbortSignal.timeout(pushTimeoutMs))) - begun
  }
}

/** Returns the ConfigMaps of a namespace that the writer writes. */
function mapsIn(namespace: string) {
  const data = Object.fromEntries(
    Array.from({ length: 10 }, (_, i) => [`setting_${i}`, `a value of some length, ${i}`]),
  )
  const names = Array.from({ length: maps }, (_, i) => `map-${i}`)
  return names.map((name) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data }))
}

function tenantFiles(): Record<string, string> {
  const all = mapsIn('tenant')
  const files = Array.from({ length: maps / mapsOfFile }, (_, i) => all.slice(i * mapsOfFile, (i + 1) * mapsOfFile))
  return Object.fromEntries(
    files.map((some, i) => [`tenant/maps-${i}.yaml`, some.map((map) => stringify(map)).join('---\n')]),
  )
}
