import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import { abortable } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dial, type Stage, textOf } from '../stage.ts'

interface Size {
  readonly sockets: number
}

const goodAgentId = 42
const dialsAtOnce = 20
const madeUp = () => randomBytes(15).toString('base64url')

/** Opens a WebSocket as a page of another origin does: with its visitor's cookie, and a made-up token. */
async function open({ ca, entry }: Stage, sockets: TLSSocket[], signal: AbortSignal): Promise<string> {
  const socket = dial(ca, entry.kubernetes)
  sockets.push(socket)
  await once(socket, 'secureConnect', { signal })
  const token = Buffer.from(`pat:${goodAgentId}:glpat-${madeUp()}`).toString('base64url')
  const head = [
    'GET /api/v1/namespaces/default/pods/p/exec?command=id&stdout=true HTTP/1.1',
    'Host: kas',
    'Origin: https://evil.example.com',
    `Cookie: _gitlab_kas=${madeUp()}`,
    `Gitlab-Agent-Id: ${goodAgentId}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    `Sec-WebSocket-Protocol: v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.${token}`,
    '\r\n',
  ].join('\r\n')
  socket.write(head)
  const closed = once(socket, 'close').then(() => [''])
  const [answer] = await abortable(Promise.race([once(socket, 'data'), closed]), signal)
  return textOf(String(answer))
}

export const foreignPages: Attack<Size> = {
  name: 'foreign-pages',
  what: 'pages of another origin, with cookies and made-up tokens as sub-protocols, while GitLab is slow',
  refusal: /^(401|429|503) /,
  gitlab: true,
  bounds: { slowdown: 5, moreMib: 96 },
  cheap: { sockets: 400 },
  full: { sockets: 3000 },
  async play(stage, { sockets: count }, signal) {
    const sockets: TLSSocket[] = []
    const end = async () => {
      for (const socket of sockets) socket.destroy()
    }
    let refusal = ''
    try {
      while (sockets.length < count) {
        const dials = Array.from({ length: Math.min(dialsAtOnce, count - sockets.length) }, () =>
          open(stage, sockets, signal),
        )
        const answers = await Promise.all(dials)
        const wrong = answers.find((answer) => answer !== '' && !foreignPages.refusal?.test(answer))
        if (wrong !== undefined) throw new Error(`a page was answered ${wrong}`)
        refusal ||= answers.find((answer) => answer !== '') ?? ''
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal, end }
  },
}
