// Requests of GitLab's dashboard to a cluster, with GitLab's own client (doc/reference/gitlab-contract.md 3.5 and 3.6).
// A page imports it; it sends its results to the page's server.

import { WatchApi } from '/client/src/watch.js'
import { WebSocketWatchManager } from '/client/src/websocket-watch.js'

const { basePath, agentId, csrfToken } = Object.fromEntries(new URLSearchParams(location.search))
const pods = '/api/v1/namespaces/demo/pods'
const configMaps = '/api/v1/namespaces/demo/configmaps'

/** Configuration for the client, which expects an object of its own class; it uses these members. */
const configuration = (token = csrfToken) => ({
  basePath,
  headers: {
    'GitLab-Agent-Id': agentId,
    'X-CSRF-Token': token,
    'Content-Type': 'application/json',
    Accept: 'application/json',
  },
  credentials: 'include',
  middleware: [],
  queryParamsStringify: (query) => String(new URLSearchParams(query)),
})

const namesOf = (objects) => objects.map(({ metadata }) => metadata.name).sort()

/** Resolves when `watch` shows exactly these. */
function shows(names, follow) {
  return new Promise((resolve, reject) => {
    follow((objects) => {
      if (String(namesOf(objects)) === String(names)) resolve(namesOf(objects))
    }, reject)
  })
}

const request = (api, method, path, query = {}) => api.request({ path, method, headers: {}, query })

async function list() {
  const response = await request(new WatchApi(configuration()), 'GET', pods)
  const { items } = await response.json()
  return { status: response.status, type: response.headers.get('Content-Type'), names: namesOf(items) }
}

/** Returns the part of a refusal that a page may read. */
async function refusal() {
  try {
    await request(new WatchApi(configuration('another')), 'GET', pods)
    return 'none'
  } catch ({ response }) {
    return { status: response.status }
  }
}

async function malformed() {
  try {
    await request(new WatchApi(configuration('')), 'GET', pods)
    return 'none'
  } catch ({ response }) {
    const { message, reason } = await response.json()
    return { status: response.status, type: response.headers.get('Content-Type'), message, reason }
  }
}

/** Checks that both kinds of watch show the deletion of an object by the page. */
async function watches() {
  const stream = new WatchApi(configuration())
  const socket = new WebSocketWatchManager(configuration())
  const watchParams = { version: 'v1', resource: 'configmaps', namespace: 'demo' }
  const byStream = (told, failed) => {
    stream.on('data', told)
    stream.on('error', failed)
  }
  const bySocket = (told, failed) => {
    socket.on('data', 'a', told)
    socket.on('error', 'a', failed)
  }
  const before = [shows(['read-me'], byStream), shows(['read-me'], bySocket)]
  await stream.subscribeToStream(configMaps, { watch: true })
  await socket.initConnection({ message: { watchId: 'a', watchParams } })
  const seen = await Promise.all(before)
  const after = [shows([], byStream), shows([], bySocket)]
  const { status } = await request(new WatchApi(configuration()), 'DELETE', `${configMaps}/read-me`)
  const left = await Promise.all(after)
  stream.abortStream()
  return { seen, status, left }
}

/** Returns the first line of a followed log; then the drawer is closed. */
function log() {
  const api = new WatchApi(configuration())
  return new Promise((resolve, reject) => {
    api.on('error', reject)
    api.on('plain', (line) => {
      resolve(line)
      api.abortStream()
    })
    api.subscribeToStream(`${pods}/clock/log`, { follow: true, container: 'clock' })
  })
}

/** Returns the answers to a page that has no access. */
async function foreign() {
  const api = new WatchApi(configuration())
  const asked = await request(api, 'GET', pods).then(
    () => 'answered',
    ({ name, cause }) => `${name}: ${cause?.name}`,
  )
  const query = new URLSearchParams({ 'gitlab-agent-id': agentId, 'gitlab-csrf-token': csrfToken })
  const socket = new WebSocket(`${basePath.replace('https', 'wss')}/watch?${query}`, 'gitlab-agent-watch-api')
  const opened = await new Promise((resolve) => {
    socket.onopen = () => resolve('opened')
    socket.onerror = () => resolve('refused')
  })
  return { asked, opened }
}

const acts = { list, refusal, malformed, watches, log, foreign }

async function play(names) {
  const said = { cookie: document.cookie }
  for (const name of names) said[name] = await acts[name]()
  return said
}

const say = (said) => fetch('/said', { method: 'POST', body: JSON.stringify(said) })

play(location.hash.slice(1).split(',')).then(say, (error) =>
  say({ failed: `${error?.stack ?? JSON.stringify(error)}` }),
)
