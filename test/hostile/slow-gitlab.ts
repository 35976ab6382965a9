import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { GitlabWorld } from '../support/gitlab/gitlab-world.ts'
import { forkProgram } from './fork-program.ts'

export type ToldWorld = Pick<GitlabWorld, 'projects' | 'agents' | 'users'>

/** A GitLab that has much to do, beside the load: what it costs is not counted as good tenants' time. */
export class SlowGitlab {
  readonly address: string
  /** shared with kas, in base64 */
  readonly secret: string
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, { address, secret }: { address: string; secret: string }) {
    this.#child = child
    this.address = address
    this.secret = secret
  }

  static async start(): Promise<SlowGitlab> {
    const child = forkProgram('slow-gitlab-program.ts')
    const [where] = await once(child, 'message')
    return new SlowGitlab(child, where)
  }

  async tell(world: ToldWorld): Promise<void> {
    const told = once(this.#child, 'message')
    this.#child.send(world)
    await told
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }
}
