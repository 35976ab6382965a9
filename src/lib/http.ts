/**
 * node:http. An `import` of it reads all its exports, also WebSocket. For that Node loads the client behind its
 * `fetch`: 3 MiB and 15 ms of each start.
 */
export const http = process.getBuiltinModule('node:http')
