import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { agentkUser, type Ground } from '../gitops/ground.ts'
import { SeenObjects } from '../gitops/seen-objects.ts'
import { askProgram, hear } from '../support/ask-program.ts'
import { machineTime } from '../support/machine-time.ts'
import { percentile } from '../support/percentile.ts'
import { cpuSeconds, type Programs } from '../support/programs.ts'
import { SteadyGets } from '../views/steady-gets.ts'
import { configuration, filesOf, type Kind, namespace, others, previewedSource } from './layout.ts'
import type { Previewed, PreviewQuestion } from './previewer.ts'

/** previews at once: more than a replica runs */
const width = 12
/** Pause after a phase: its last events arrive. ms */
const restMs = 2000
/** Limit of a push while the API server is busy. ms */
const pushTimeoutMs = 120_000

/** A source that is previewed, another source with a push after the other, and a caller through the tunnel. */
export class PreviewGround {
  readonly #ground: Ground
  readonly #seconds: number
  readonly #other = others()
  readonly #seen: SeenObjects
  #previewer: ChildProcess | undefined
  #version = 0

  /** @param seconds - of a phase */
  constructor(ground: Ground, seconds: number) {
    this.#ground = ground
    this.#seconds = seconds
    this.#seen = new SeenObjects(ground.controlPlane.admin, 'other')
  }

  /** Resolves when both sources are in the cluster. */
  async start(programs: Programs, signal: AbortSignal): Promise<void> {
    const { pushes, controlPlane } = this.#ground
    await controlPlane.admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
    this.#seen.start()
    const commit = await pushes.commit({ ...filesOf('git'), ...this.#other.files(), ...configuration() })
    await this.#ground.tell()
    await this.#ground.synced(commit, signal, 2)
    const target = this.#ground.target(`/gitops/diff?source=${previewedSource}&format=ndjson`)
    this.#previewer = programs.spawn(join(import.meta.dirname, 'previewer.ts'), [JSON.stringify(target)])
    await hear(this.#previewer)
  }

  stop(): void {
    this.#seen.stop()
  }

  /** Measures one phase. @param kind - `idle`: nothing is previewed */
  async phase(kind: Kind | 'idle'): Promise<Record<string, number>> {
    const { log, agentkPid, kasPid, target } = this.#ground
    const [from, begun] = [log.end, machineTime()]
    const cpu = { agentk: cpuSeconds(agentkPid), kas: cpuSeconds(kasPid) }
    const previewing = kind === 'idle' ? undefined : this.preview({ kind, width, seconds: this.#seconds, previews: 0 })
    const gets = new SteadyGets(target('/api/v1/namespaces/other-0/configmaps/app-000-0'))
    const rounds: number[] = []
    while (machineTime() < begun + this.#seconds * 1000) rounds.push(await this.#push())
    const ended = machineTime()
    await gets.stop()
    const calls = gets.percentiles(begun, ended)
    const { took, between } = log.renewals(from, agentkUser)
    const seconds = (ended - begun) / 1000
    const used = {
      'CPU of agentk, of a core': (cpuSeconds(agentkPid) - cpu.agentk) / seconds,
      'CPU of kas, of a core': (cpuSeconds(kasPid) - cpu.kas) / seconds,
    }
    const previewed = await previewing
    await sleep(restMs)
    return {
      'another source, push to applied: p50, ms': percentile(rounds, 0.5),
      'another source, push to applied: p99, ms': percentile(rounds, 0.99),
      'renewal of the Lease, at the API server: p50, ms': percentile(took, 0.5),
      'renewal of the Lease, at the API server: p99, ms': percentile(took, 0.99),
      'time between two renewals: p99, ms': percentile(between, 0.99),
      'GET through the tunnel: p50, ms': calls.p50,
      'GET through the tunnel: p99, ms': calls.p99,
      ...used,
      ...(previewed && figuresOf(previewed)),
    }
  }

  async preview(question: PreviewQuestion): Promise<Previewed> {
    return await askProgram<Previewed>(this.#previewer as ChildProcess, question)
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

/** Prints what answers other than 200 say. */
function figuresOf({ statuses, texts, ms }: Previewed): Record<string, number> {
  for (const [status, text] of Object.entries(texts)) process.stderr.write(`${status}: ${JSON.stringify(text)}\n`)
  const counts = Object.entries(statuses).map(([status, count]) => [`previews answered with ${status}`, count])
  return { ...Object.fromEntries(counts), 'preview: p50, ms': percentile(ms, 0.5) }
}
