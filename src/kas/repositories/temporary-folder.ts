import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Service } from '../../lib/service.ts'

/** A folder below TMPDIR for what is fetched and can be fetched again; it lives from start to stop, or to the exit. */
export class TemporaryFolder implements Service {
  readonly path = join(tmpdir(), `kas-${randomUUID()}`)
  readonly #onExit = () => rmSync(this.path, { recursive: true, force: true })

  async start(): Promise<void> {
    await mkdir(this.path, { mode: 0o700 })
    process.once('exit', this.#onExit)
  }

  async stop(): Promise<void> {
    process.off('exit', this.#onExit)
    await rm(this.path, { recursive: true, force: true })
  }
}
