import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { isAsciiLocale, PrintableOutput } from '../../lib/printable-output.ts'
import type { CliIo } from './command.ts'

/** less with git's options: it ends at once if all fits the screen, shows colours, and leaves the text on the screen */
const usual = 'less -FRX'
/** exit codes of a shell that cannot start a program */
const notStarted: ReadonlySet<number | null> = new Set([126, 127])

/**
 * Returns the command that shows long text page by page: `KAS_PAGER` of the environment, else less, if it is installed.
 *
 * @returns undefined: there is none, it is switched off, or there is no terminal that can scroll
 */
export function pagerOf({ stdout, env }: Pick<CliIo, 'stdout' | 'env'>): string | undefined {
  if (!stdout.isTTY || env.TERM === 'dumb') return undefined
  const { KAS_PAGER: own } = env
  if (own !== undefined) return own.trim() === '' || own.trim() === 'cat' ? undefined : own
  return isThere('less', env.PATH) ? usual : undefined
}

function isThere(program: string, path = ''): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return folder !== ''
    } catch {
      return false // not in this folder
    }
  })
}

/** Collects output for a terminal, and shows it by a pager once it is complete. */
export class Pager {
  readonly output: PrintableOutput
  readonly #command: string
  readonly #io: CliIo
  #text = ''

  constructor(command: string, io: CliIo) {
    const { stdout, env } = io
    this.#command = command
    this.#io = io
    const stream = {
      isTTY: true,
      columns: stdout.columns,
      rows: stdout.rows,
      write: (text: string) => {
        this.#text += text
      },
    }
    this.output = new PrintableOutput(stream, { isAscii: isAsciiLocale(env) })
  }

  /** Resolves once the reader has closed the pager. If the pager cannot be started, the text is written without it. */
  async show(): Promise<void> {
    if (this.#text === '') return
    const { env, stdout } = this.#io
    const pager = spawn('sh', ['-c', this.#command], { env, stdio: ['pipe', 'inherit', 'inherit'] })
    const exited = once(pager, 'exit')
    pager.stdin.on('error', () => undefined) // the reader closed it before the end of the text
    pager.stdin.end(this.#text)
    const stay = () => undefined // an interrupt is for the pager
    this.#io.once?.('SIGINT', stay)
    try {
      const [code] = (await exited) as [number | null]
      if (notStarted.has(code)) stdout.draw(this.#text)
    } catch {
      stdout.draw(this.#text) // there is no shell
    } finally {
      this.#io.off?.('SIGINT', stay)
    }
  }
}
