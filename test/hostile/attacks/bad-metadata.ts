import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from '../../support/fake-agent.ts'
import { type Attack, over } from '../attack.ts'
import { EvilAgent } from '../evil-agent.ts'
import { type Answered, EvilUser, told } from '../stage.ts'

interface Size {
  readonly calls: number
}

type Answer = (tunnel: FakeTunnel) => void

const tunnels = 64
const atOnce = 16
/** limit for an answer to odd metadata, which only the evil tenant's caller waits for. ms */
const patienceMs = 1000

const inHeader =
  (meta: Record<string, string[]>): Answer =>
  (tunnel) => {
    tunnel.send(encodeConnectRequest.header(meta))
    tunnel.error(13, 'behind bad metadata')
  }
const inTrailer =
  (meta: Record<string, string[]>): Answer =>
  (tunnel) => {
    tunnel.send(encodeConnectRequest.header({}))
    tunnel.send(encodeConnectRequest.trailer(meta))
    tunnel.error(13, 'behind bad trailers')
  }
const inText: Answer = (tunnel) => tunnel.error(13, 'a text with a NUL \0, \r\n\r\n and a lone %zz')

/** HTTP/2 sends it in a frame, which the receiver finds invalid and counts against the connection. */
const nul = { 'x-nul': ['a\0b'] }
/** Metadata that HTTP/2 does not even write. */
const odd: Record<string, string[]>[] = [
  { 'x-line': ['a\r\nx-other: b'] },
  { 'x-end': ['a\n', '\r'] },
  { 'x name': ['a'] },
  { 'x\0name': ['a'] },
  { 'X-Upper': ['a'] },
  { '': ['a'] },
  { ':status': ['200'] },
  { connection: ['close'] },
  { 'transfer-encoding': ['chunked'] },
  { 'x-byte': ['\u0080\u00ff\u4e00'] },
  { 'x-bin': ['a\0b'] },
  { 'grpc-status-details-bin': ['\0', '\n'] },
]

export const badMetadata: Attack<Size> = {
  name: 'bad-metadata',
  what: 'names and values in an agent\u2019s metadata that HTTP/2 does not take',
  refusal: /^502 (?!.*stream reset)/,
  cheap: { calls: 40 },
  full: { calls: 2000 },
  async play(stage, { calls }, signal) {
    const answers = [inHeader(nul), inHeader(nul), inHeader(nul), inHeader(nul), inText, inTrailer(nul)]
    let next = (number: number): Answer | undefined => answers[number % answers.length]
    let served = 0
    const answer: Answer = (tunnel) => {
      next(served++)?.(tunnel)
      tunnel.stream.end()
    }
    const user = new EvilUser(stage, atOnce)
    const agent = await EvilAgent.start(stage, { at: stage.holder, tunnels, answer })
    let worst: Answered | undefined
    let asked = 0
    const ask = async () => {
      while (asked++ < calls) {
        const answered = await user.get(stage.entry, '/version', { signal })
        if (!worst || answered.body.includes('stream reset')) worst = answered
      }
    }
    try {
      await Promise.all(Array.from({ length: atOnce }, ask))
      for (const how of [inHeader, inTrailer]) {
        for (const meta of odd) {
          next = () => how(meta)
          const patience = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
          await user.get(stage.entry, '/version', { signal: patience }).catch(() => signal.throwIfAborted())
        }
      }
    } finally {
      agent.close()
      user.close()
    }
    return over(worst ? told(worst) : 'no call was answered')
  },
}
