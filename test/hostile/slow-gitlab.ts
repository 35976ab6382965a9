import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { GitlabWorld } from '../support/gitlab/gitlab-world.ts'
import { forkProgram } from './fork-program.ts'

export type ToldWorld = Pick<GitlabWorld, 'projects' | 'agents' | 'users'>

/** A busy GitLab in a process of its own, so that its CPU time is not the load's. */
export class SlowGitlab {
  readonly address: string
  /** secret that it shares with kas, in base64 */
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
