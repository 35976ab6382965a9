import { readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Agent, createServer, request, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Authority } from '../../../dev/certificates.ts'

/** its Retry-After header. s */
const retryAfter = '1'
/** While it is busy, one request in so many is answered. */
const answeredOneIn = 3

/** A front of an API server. While it is busy, it answers most requests with status 429, but not those of Leases. */
export class BusyFront {
  readonly server: string
  /** PEM */
  readonly authority: string
  isBusy = false
  #isCut = false
  /** requests that got status 429 */
  refused = 0
  /** called with each request, before it goes on */
  onRequest: (url: string) => void = () => undefined
  readonly #front: Server
  readonly #behind: { readonly server: string; readonly agent: Agent }
  #asked = 0

  private constructor(front: Server, authority: string, behind: { server: string; agent: Agent }) {
    this.#front = front
    this.authority = authority
    this.#behind = behind
    this.server = `https://127.0.0.1:${(front.address() as AddressInfo).port}`
    front.on('request', (asked, answer) => this.#serve(asked, answer))
  }

  static async start({ server, caFile }: { server: string; caFile: string }): Promise<BusyFront> {
    const authority = await Authority.create('soak gitops')
    const { certificate: cert, key } = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
    const front = createServer({ cert, key })
    await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve))
    const agent = new Agent({ keepAlive: true, ca: await readFile(caFile) })
    return new BusyFront(front, authority.certificate, { server, agent })
  }

  /** true: no connection passes it */
  set isCut(isCut: boolean) {
    this.#isCut = isCut
    if (isCut) this.#front.closeAllConnections()
  }

  stop(): void {
    this.#front.close()
    this.#front.closeAllConnections()
    this.#behind.agent.destroy()
  }

  #serve(asked: IncomingMessage, answer: ServerResponse): void {
    if (this.#isCut) {
      asked.socket.destroy()
      return
    }
    const { url = '', method, headers } = asked
    if (this.isBusy && !url.includes('/leases') && ++this.#asked % answeredOneIn !== 0) {
      this.refused += 1
      asked.resume()
      const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'TooManyRequests', code: 429 }
      answer.writeHead(429, { 'content-type': 'application/json', 'retry-after': retryAfter })
      answer.end(JSON.stringify(body))
      return
    }
    this.onRequest(url)
    const { server, agent } = this.#behind
    const sent = request(new URL(url, server), { agent, method, headers }, (answered) => {
      answer.writeHead(answered.statusCode ?? 502, answered.headers)
      answered.pipe(answer)
      answered.once('error', () => answer.destroy())
    })
    sent.once('error', () => answer.destroy())
    answer.once('close', () => sent.destroy())
    asked.pipe(sent)
  }
}
