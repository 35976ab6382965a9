import { once } from 'node:events'
import { delay } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial, headOf, neighbourOf, textOf } from '../stage.ts'

interface Size {
  /** loops at each replica that is attacked */
  readonly loops: number
  readonly replicas: number
  /** duration of the attack. ms */
  readonly lastsMs: number
}

const announced = ['Content-Type: application/json', 'Content-Length: 100000']

export const ownBodies: Attack<Size> = {
  name: 'own-bodies',
  what: 'one user who asks for the state of sources again and again, each time with a body that does not come',
  refusal: /^400 .*a GET cannot have a body/,
  cheap: { loops: 24, replicas: 1, lastsMs: 2000 },
  full: { loops: 50, replicas: 3, lastsMs: 20_000 },
  async play(stage, { loops, replicas, lastsMs }, signal) {
    const [credential = ''] = neighbourOf(stage).userCredentials
    const head = headOf('GET /gitops/state', credential, ...announced)
    const over = AbortSignal.any([signal, AbortSignal.timeout(lastsMs)])
    let refusal = ''
    const ask = async (port: number) => {
      while (!over.aborted) {
        const socket = dial(stage.ca, port)
        const closed = once(socket, 'close')
        const leave = () => socket.destroy()
        over.addEventListener('abort', leave, { once: true })
        socket.on('data', (chunk) => {
          if (!String(chunk).startsWith('HTTP/1.1 2')) refusal ||= textOf(String(chunk))
        })
        socket.write(head)
        await closed
        over.removeEventListener('abort', leave)
        await delay(1)
      }
    }
    const replicasAsked = [stage.entry, stage.holder, stage.standby].slice(0, replicas)
    await Promise.all(replicasAsked.flatMap(({ kubernetes }) => Array.from({ length: loops }, () => ask(kubernetes))))
    signal.throwIfAborted()
    return { refusal, end: async () => undefined }
  },
}
