import { Registry } from 'prom-client'
import { type AccessLine, accessLineSchema } from '../../src/kas/access-log/access-line.ts'
import { AccessLog, type AccessLogOptions } from '../../src/kas/access-log/access-log.ts'
import { backgroundClock, type Clock } from '../../src/lib/clock.ts'
import { capturedLog } from './captured-log.ts'

/** An access log whose lines a test can wait for. Each line must match the schema, or its parsing throws. */
export class AccessLines {
  readonly log: AccessLog
  readonly register = new Registry()
  /** all lines as one text, as they were written */
  text = ''
  readonly lines: AccessLine[] = []
  #changed: (() => void) | undefined

  constructor(options: Partial<AccessLogOptions> = {}, clock: Clock = backgroundClock) {
    const sink = {
      write: (lines: Buffer, from: number, done: (to: number) => void) => {
        this.writeNow(lines.subarray(from))
        setImmediate(done, lines.length)
      },
      writeNow: (lines: Buffer) => this.writeNow(lines),
    }
    this.log = new AccessLog(
      { sink, clock, register: this.register, log: capturedLog().log },
      { entry: 'kas-0', execCommand: 'program', keepsRecent: true, ...options },
    )
  }

  writeNow(bytes: Uint8Array): void {
    const text = Buffer.from(bytes).toString('utf8')
    this.text += text
    for (const line of text.trimEnd().split('\n')) this.lines.push(accessLineSchema.parse(JSON.parse(line)))
    this.#changed?.()
  }

  /** Resolves once there are so many lines. */
  async count(count: number): Promise<readonly AccessLine[]> {
    while (this.lines.length < count) {
      await new Promise<void>((resolve) => {
        this.#changed = resolve
      })
    }
    return this.lines
  }
}
