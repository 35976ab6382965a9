import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringify } from 'yaml'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import type { Ground } from '../gitops/ground.ts'
import { OthersAtWork } from '../gitops/others-at-work.ts'
import { agentkNamespace } from '../hop/ours.ts'
import { askProgram, hear } from '../support/ask-program.ts'
import type { Programs } from '../support/programs.ts'
import { configurationFile } from './layout.ts'
import type { WriteQuestion, WriterSettings, Written } from './writer.ts'

/** ConfigMaps of the tenant's source, and as many that no source has */
const maps = 1000
const mapsOfFile = 100
const account = 'tenant'
const tokenLifeMs = 24 * 3_600_000
/** Pause after a phase: its last events arrive. ms */
const restMs = 2000

/** Writes in a phase: none, of objects that no source has, or of the objects of the tenant's source. */
export type Writes = 'idle' | 'others' | 'tenant'

/** A tenant's source, another source with a push after the other, and a caller through the tunnel. */
export class TenantGround {
  /** user of the writes */
  static readonly user = `system:serviceaccount:${agentkNamespace}:${account}`
  readonly #ground: Ground
  readonly #options: { readonly seconds: number; readonly writes: number }
  readonly #others: OthersAtWork
  #writer: ChildProcess | undefined

  /** @param options - seconds of a phase, and writes a second */
  constructor(ground: Ground, options: { readonly seconds: number; readonly writes: number }) {
    this.#ground = ground
    this.#options = options
    this.#others = new OthersAtWork(ground)
  }

  /** Resolves when both sources are in the cluster. */
  async start(programs: Programs, signal: AbortSignal): Promise<void> {
    const { pushes, controlPlane } = this.#ground
    const { admin, server, caFile } = controlPlane
    for (const name of ['tenant', 'others']) await admin.create('/api/v1/namespaces', { metadata: { name } })
    for (const map of mapsIn('others')) await admin.create('/api/v1/namespaces/others/configmaps', map)
    this.#others.start()
    const commit = await pushes.commit({ ...tenantFiles(), ...this.#others.objects.files() })
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
    this.#others.stop()
  }

  /** Measures one phase. */
  async phase(writes: Writes): Promise<Record<string, number>> {
    const { seconds, writes: perSecond } = this.#options
    const question: WriteQuestion = { namespace: writes === 'idle' ? '' : writes, objects: maps, perSecond, seconds }
    const writing = writes === 'idle' ? undefined : askProgram<Written>(this.#writer as ChildProcess, question)
    const figures = await this.#others.measure(seconds)
    const written = await writing
    await sleep(restMs)
    return { ...figures, ...(written && { 'writes a second': written.perSecond }) }
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
