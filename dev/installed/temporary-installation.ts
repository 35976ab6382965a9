import { mkdtemp, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Service } from '../../src/lib/service.ts'
import { Warden } from '../control-plane/warden.ts'
import type { Programs } from '../start/local-programs.ts'
import { installAsImages } from './installation.ts'

export interface TemporaryInstallationOptions {
  /** called with each step, for the screen */
  readonly onStep: (text: string) => void
}

/**
 * This tree's programs as in the images, in a folder that is removed with this process. The folder is outside of the
 * project, whose node_modules would hide missing packages.
 */
export class TemporaryInstallation implements Service {
  readonly #onStep: TemporaryInstallationOptions['onStep']
  #warden: Warden | undefined
  #programs: Programs | undefined

  constructor({ onStep }: TemporaryInstallationOptions) {
    this.#onStep = onStep
  }

  /** The programs, once they are installed. */
  get programs(): Programs {
    if (!this.#programs) throw new Error('the programs have not been installed')
    return this.#programs
  }

  /** @throws Error that names what is missing; the signal's reason */
  async start(signal?: AbortSignal): Promise<void> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'kas-installed-')))
    this.#warden = new Warden({ folders: [folder] })
    await this.#warden.start()
    this.#onStep(`putting kas and agentk into ${folder}, as the images hold them`)
    this.#programs = await installAsImages(folder)
    signal?.throwIfAborted()
  }

  async stop(): Promise<void> {
    await this.#warden?.stop()
  }
}
