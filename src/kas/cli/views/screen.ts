import type { CliIo } from '../command.ts'

const clear = '\u001b[H\u001b[J'

/** What is shown now: on a terminal in place of what was, elsewhere below it, and only if it differs. */
export class Screen {
  readonly #stdout: CliIo['stdout']
  #shown: string | undefined

  constructor(stdout: CliIo['stdout']) {
    this.#stdout = stdout
  }

  show(text: string): void {
    if (text === this.#shown) return
    const before = this.#stdout.isTTY ? clear : this.#shown === undefined ? '' : '\n'
    this.#shown = text
    this.#stdout.write(before + text)
  }
}
