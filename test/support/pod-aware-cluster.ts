import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TornDown } from './processes.ts'

interface Ask {
  pod: string
  method: string
  path: string
}

/**
 * An API server that identifies the pod of an agent by its token. `/held` is answered to `living` alone, `/events`
 * never ends, after one event; all other answers name the pod.
 */
export class PodAwareCluster {
  readonly url: string
  readonly #asks: Ask[] = []
  readonly #listeners = new Set<() => void>()

  private constructor(port: number) {
    this.url = `http://127.0.0.1:${port}`
  }

  static async start(t: TornDown): Promise<PodAwareCluster> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    t.teardown(() => {
      server.close()
      server.closeAllConnections()
    })
    await once(server, 'listening')
    const cluster = new PodAwareCluster((server.address() as AddressInfo).port)
    server.on('request', (request, response) => cluster.#answer(request, response))
    return cluster
  }

  /** Resolves when `pod` has made `count` more requests, default one. */
  asked({ count = 1, ...wanted }: { pod: string; path: string; count?: number }): Promise<void> {
    const asks = () => this.#asks.filter(({ pod, path }) => pod === wanted.pod && path === wanted.path).length
    const enough = asks() + count
    return new Promise((resolve) => {
      const look = () => {
        if (asks() < enough) return
        this.#listeners.delete(look)
        resolve()
      }
      this.#listeners.add(look)
    })
  }

  podsThatAsked(method: string, path: string): string[] {
    return this.#asks.filter((ask) => ask.method === method && ask.path === path).map(({ pod }) => pod)
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '' } = request
    const pod = String(request.headers.authorization).replace('Bearer ', '')
    this.#asks.push({ pod, method, path: url })
    if (url === '/events') response.write('{"event":1}\n')
    else if (url !== '/held' || pod === 'living') {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ pod }))
    }
    for (const listener of this.#listeners) listener()
  }
}
