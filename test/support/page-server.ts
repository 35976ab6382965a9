import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import type { TornDown } from './processes.ts'

interface PageServerOptions {
  readonly certificate: string
  readonly key: string
  /** `Set-Cookie` of the page */
  readonly cookie: string
  /** module that the page runs */
  readonly script: string
  /** folder served below `/client/`; a path without an extension means a `.js` */
  readonly clientFolder: string
}

/** Replaces GitLab's web pages: one page, its script, and an endpoint for the script's results. */
export class PageServer {
  readonly port: number
  readonly #options: PageServerOptions
  #told = Promise.withResolvers<unknown>()

  private constructor(port: number, options: PageServerOptions) {
    this.port = port
    this.#options = options
  }

  static async start(t: TornDown, options: PageServerOptions): Promise<PageServer> {
    const server = createServer({ cert: options.certificate, key: options.key })
    server.listen(0, '127.0.0.1')
    t.teardown(() => {
      server.close()
      server.closeAllConnections()
    })
    await once(server, 'listening')
    const pages = new PageServer((server.address() as AddressInfo).port, options)
    server.on('request', (request, response) => {
      pages.#answer(request, response).catch(() => response.writeHead(404).end())
    })
    return pages
  }

  /** Resolves with the results of the next page. */
  async said(): Promise<unknown> {
    const said = await this.#told.promise
    this.#told = Promise.withResolvers()
    return said
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'https://page')
    if (pathname === '/page') return this.#page(response)
    if (pathname === '/said') return await this.#hear(request, response)
    const { script, clientFolder } = this.#options
    const name = extname(pathname) ? pathname : `${pathname}.js`
    const file = pathname === '/script.js' ? script : join(clientFolder, name.replace(/^\/client\//, ''))
    const text = await readFile(file)
    response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(text)
  }

  #page(response: ServerResponse): void {
    response.writeHead(200, { 'Content-Type': 'text/html', 'Set-Cookie': this.#options.cookie })
    response.end('<!doctype html><title>A page</title><script type="module" src="/script.js"></script>')
  }

  async #hear(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#told.resolve(JSON.parse(Buffer.concat(await request.toArray()).toString()))
    response.writeHead(204).end()
  }
}
