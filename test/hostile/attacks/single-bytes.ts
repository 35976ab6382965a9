import { once } from 'node:events'
import { abortable, delay } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial, type Stage } from '../stage.ts'

interface Size {
  /** connections at once */
  readonly connections: number
  readonly ms: number
}

/** chunks of one byte; Node emits each on its own */
const chunks = Buffer.from('1\r\na\r\n'.repeat(10_000))
/** pause of each between two connections; without it the test measures only a busy machine. ms */
const restMs = 50

/** Makes one request whose body has no end, until its connection is closed. */
async function send(
  { ca, holder }: Stage,
  { credential, refused, signal }: { credential: string; refused: (text: string) => void; signal: AbortSignal },
): Promise<void> {
  const socket = dial(ca, holder.kubernetes, ['http/1.1'])
  const hangUp = () => void socket.destroy()
  signal.addEventListener('abort', hangUp)
  try {
    await once(socket, 'secureConnect', { signal })
    socket.setEncoding('latin1').on('data', refused)
    const head = `POST /api/v1/namespaces/evil/configmaps HTTP/1.1\r\nHost: kas\r\n${credential}Transfer-Encoding: chunked\r\n\r\n`
    const pump = (error?: Error | null) => error || socket.write(chunks, pump)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write(head, pump)
    await closed
  } catch {
    // kas had no room for it
  } finally {
    signal.removeEventListener('abort', hangUp)
    socket.destroy()
  }
}

export const singleBytes: Attack<Size> = {
  name: 'single-bytes',
  what: 'bodies of single bytes without end, of strangers and of the evil one',
  refusal: /no valid credentials provided/,
  counter: 'kas_kubernetes_errors_total{code="CREDENTIALS_INVALID"}',
  cheap: { connections: 16, ms: 1000 },
  full: { connections: 100, ms: 15_000 },
  async play(stage, { connections, ms }, signal) {
    let refusal = ''
    const ended = new AbortController()
    const senders = Array.from({ length: connections }, async (_, i) => {
      const credential = i % 2 === 0 ? '' : `Authorization: Bearer ${stage.evil.userCredential}\r\n`
      const refused = (text: string) => {
        if (credential === '') refusal = /"message":"([^"]*)"/.exec(text)?.[1] ?? refusal
      }
      while (!ended.signal.aborted) {
        await send(stage, { credential, refused, signal: ended.signal })
        await delay(restMs, ended.signal).catch(() => undefined) // it is over
      }
    })
    const end = async () => {
      ended.abort()
      await Promise.all(senders)
    }
    try {
      await abortable(delay(ms), signal)
    } catch (error) {
      await end()
      throw error
    }
    return { refusal, end }
  },
}
