import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Ground } from '../gitops/ground.ts'
import { OthersAtWork } from '../gitops/others-at-work.ts'
import { askProgram, hear } from '../support/ask-program.ts'
import { percentile } from '../support/percentile.ts'
import type { Programs } from '../support/programs.ts'
import { configuration, filesOf, type Kind, namespace, previewedSource } from './layout.ts'
import type { Previewed, PreviewQuestion } from './previewer.ts'

/** previews at once: more than a replica runs */
const width = 12
/** Pause after a phase: its last events arrive. ms */
const restMs = 2000

/** A source that is previewed, another source with a push after the other, and a caller through the tunnel. */
export class PreviewGround {
  readonly #ground: Ground
  readonly #seconds: number
  readonly #others: OthersAtWork
  #previewer: ChildProcess | undefined

  /** @param seconds - of a phase */
  constructor(ground: Ground, seconds: number) {
    this.#ground = ground
    this.#seconds = seconds
    this.#others = new OthersAtWork(ground)
  }

  /** Resolves when both sources are in the cluster. */
  async start(programs: Programs, signal: AbortSignal): Promise<void> {
    const { pushes, controlPlane } = this.#ground
    await controlPlane.admin.create('/api/v1/namespaces', { metadata: { name: namespace } })
    this.#others.start()
    const commit = await pushes.commit({ ...filesOf('git'), ...this.#others.objects.files(), ...configuration() })
    await this.#ground.tell()
    await this.#ground.synced(commit, signal, 2)
    const target = this.#ground.target(`/gitops/diff?source=${previewedSource}&format=ndjson`)
    this.#previewer = programs.spawn(join(import.meta.dirname, 'previewer.ts'), [JSON.stringify(target)])
    await hear(this.#previewer)
  }

  stop(): void {
    this.#others.stop()
  }

  /** Measures one phase. @param kind - `idle`: nothing is previewed */
  async phase(kind: Kind | 'idle'): Promise<Record<string, number>> {
    const previewing = kind === 'idle' ? undefined : this.preview({ kind, width, seconds: this.#seconds, previews: 0 })
    const figures = await this.#others.measure(this.#seconds)
    const previewed = await previewing
    await sleep(restMs)
    return { ...figures, ...(previewed && figuresOf(previewed)) }
  }

  async preview(question: PreviewQuestion): Promise<Previewed> {
    return await askProgram<Previewed>(this.#previewer as ChildProcess, question)
  }
}

/** Prints what answers other than 200 say. */
function figuresOf({ statuses, texts, ms }: Previewed): Record<string, number> {
  for (const [status, text] of Object.entries(texts)) process.stderr.write(`${status}: ${JSON.stringify(text)}\n`)
  const counts = Object.entries(statuses).map(([status, count]) => [`previews answered with ${status}`, count])
  return { ...Object.fromEntries(counts), 'preview: p50, ms': percentile(ms, 0.5) }
}
