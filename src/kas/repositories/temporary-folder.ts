import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Service } from '../../lib/service.ts'

/** A folder below TMPDIR for what is fetched and can be fetched again; it lives from start to stop. */
export class TemporaryFolder implements Service {
  readonly path = join(tmpdir(), `kas-${randomUUID()}`)

  async start(): Promise<void> {
    await mkdir(this.path, { mode: 0o700 })
  }

  async stop(): Promise<void> {
    await rm(this.path, { recursive: true, force: true })
  }
}
