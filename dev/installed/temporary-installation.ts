import { mkdir, mkdtemp, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Service } from '../../src/lib/service.ts'
import { Warden } from '../control-plane/warden.ts'
import { type Installation, installAsImage, packProject } from './installation.ts'

export interface TemporaryInstallationOptions {
  /** told what is being done, for the screen */
  readonly onStep: (text: string) => void
}

/**
 * This tree's package, installed as the images do it into a folder that goes with this process. It lies outside of the
 * project, whose node_modules would lend what the package lacks.
 */
export class TemporaryInstallation implements Service {
  readonly #onStep: TemporaryInstallationOptions['onStep']
  #warden: Warden | undefined
  #installation: Installation | undefined

  constructor({ onStep }: TemporaryInstallationOptions) {
    this.#onStep = onStep
  }

  /** Once started. */
  get programs(): Installation['programs'] {
    if (!this.#installation) throw new Error('the package has not been installed')
    return this.#installation.programs
  }

  /** @throws Error with npm's output; the signal's reason */
  async start(signal?: AbortSignal): Promise<void> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'kas-package-')))
    this.#warden = new Warden({ folders: [folder] })
    await this.#warden.start()
    const packed = join(folder, 'packed')
    await mkdir(packed)
    this.#onStep('packing (npm pack)')
    await packProject(packed, signal)
    this.#onStep(`installing the package into ${folder} by the RUN line of deploy/Containerfile, offline`)
    this.#installation = await installAsImage(packed, join(folder, 'installed'), signal)
    this.#onStep(`kas and agentk are those of ${this.#installation.home}`)
  }

  async stop(): Promise<void> {
    await this.#warden?.stop()
  }
}
