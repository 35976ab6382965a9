import { join } from 'node:path'
import type { Exit, Processes, TestProcess } from './processes.ts'

export interface KubectlOptions {
  /** path */
  kubeconfig: string
  namespace?: string
}

export interface KubectlInput {
  stdin?: string | Uint8Array
  /** its input stays open after `stdin` */
  keepsInput?: boolean
  environment?: Readonly<Record<string, string>>
}

/** Nearly all of its work is its start: without garbage collection below this limit it takes a fifth less CPU. */
const cheapStart = { GOGC: 'off', GOMEMLIMIT: '128MiB', GOMAXPROCS: '1' }

/** kubectl with one kubeconfig, as a process each time. */
export class Kubectl {
  readonly #processes: Processes
  readonly #assets: string
  readonly #options: KubectlOptions

  /** @param components.assets - folder of kubectl */
  constructor(components: { processes: Processes; assets: string }, options: KubectlOptions) {
    this.#processes = components.processes
    this.#assets = components.assets
    this.#options = options
  }

  get namespace(): string {
    return this.#options.namespace ?? 'default'
  }

  /** Returns kubectl with other options, such as another user or namespace. */
  with(options: Partial<KubectlOptions>): Kubectl {
    const components = { processes: this.#processes, assets: this.#assets }
    return new Kubectl(components, { ...this.#options, ...options })
  }

  /** Starts a command that goes on until it is stopped. */
  start(args: readonly string[], input: KubectlInput = {}): Promise<TestProcess> {
    return this.#processes.spawn(this.#command(args, input))
  }

  /**
   * Starts a command on a terminal, which is util-linux' `script`.
   *
   * @param before - commands of a shell that run on this terminal first
   */
  startInTerminal(before: string, args: readonly string[], input: KubectlInput = {}): Promise<TestProcess> {
    const { command, args: all, environment } = this.#command(args, input)
    const line = [command, ...all].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
    return this.#processes.spawn({
      command: 'script',
      args: ['--quiet', '--return', '--command', `${before} exec ${line}`, '/dev/null'],
      environment: { ...environment, SHELL: '/bin/sh' },
    })
  }

  /**
   * Starts a command whose output goes to `reader`, a command of a shell; its exit status is the first that is not 0.
   */
  startPiped(args: readonly string[], reader: string, input: KubectlInput = {}): Promise<TestProcess> {
    const { command, args: all, environment } = this.#command(args, input)
    const pipe = `set -o pipefail; "$@" | (${reader})`
    return this.#processes.spawn({ command: 'bash', args: ['-c', pipe, 'bash', command, ...all], environment })
  }

  #command(args: readonly string[], { environment, ...input }: KubectlInput) {
    const { kubeconfig, namespace } = this.#options
    return {
      command: join(this.#assets, 'kubectl'),
      args: [`--kubeconfig=${kubeconfig}`, ...(namespace ? [`--namespace=${namespace}`] : []), ...args],
      environment: { KUBECACHEDIR: join(this.#processes.folder, 'cache'), ...cheapStart, ...environment },
      ...input,
    }
  }

  /** Runs a command to its end, with any exit status, within 30 s. */
  async run(args: readonly string[], input: KubectlInput = {}): Promise<Exit> {
    return (await this.start(args, input)).ends()
  }

  /** Runs a command. @returns its output. @throws Error when its exit status is not 0 */
  async ok(args: readonly string[], input: KubectlInput = {}): Promise<string> {
    const exit = await this.run(args, input)
    if (exit.code !== 0) throw new Error(`kubectl ${args.join(' ')}: exit status ${exit.code}: ${exit.stderr}`)
    return exit.stdout.toString()
  }
}
